package link

import (
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/kernel/netns"
)

// followPause is how long a follower waits before it asks for the kernel's news again, after it lost them.
const followPause = time.Second

// Addresses follows the addresses of a namespace's devices, without loopback and link-local ones.
type Addresses struct {
	k      *Kernel
	except []string
	now    atomic.Pointer[[]netip.Addr]
	end    chan struct{}
}

// Follow lists the addresses of all devices, and goes on listing them as they change until Close. Devices whose names are
// in except do not count.
func Follow(ns *netns.NS, except ...string) (*Addresses, error) {
	k, err := Open(ns)
	if err != nil {
		return nil, err
	}
	a := &Addresses{k: k, except: except, end: make(chan struct{})}
	if err := a.list(); err != nil {
		k.Close()
		return nil, err
	}
	go a.follow(ns)
	return a, nil
}

// Now returns the addresses, sorted. The slice is not to be changed.
func (a *Addresses) Now() []netip.Addr { return *a.now.Load() }

// Close ends the following; Now goes on saying the last addresses.
func (a *Addresses) Close() { close(a.end) }

func (a *Addresses) list() error {
	links, err := a.k.List()
	if err != nil {
		return err
	}
	out := []netip.Addr{}
	for _, l := range links {
		if slices.Contains(a.except, l.Name) {
			continue
		}
		for _, p := range l.Addrs {
			if !p.Addr().IsLoopback() {
				out = append(out, p.Addr())
			}
		}
	}
	slices.SortFunc(out, netip.Addr.Compare)
	out = slices.Compact(out)
	a.now.Store(&out)
	return nil
}

// follow lists once more after each subscription, so that nothing that happened before it is missed.
func (a *Addresses) follow(ns *netns.NS) {
	defer a.k.Close()
	for {
		news, lost := make(chan netlink.AddrUpdate, 64), make(chan struct{})
		subscribe := func() error { return netlink.AddrSubscribe(news, lost) }
		err := error(nil)
		if ns == nil {
			err = subscribe()
		} else {
			err = ns.Do(subscribe)
		}
		if err == nil {
			_ = a.list() // the last list stays when this one fails: the next news list again
			err = a.hear(news)
			close(lost)
		}
		if err == nil {
			return
		}
		select {
		case <-a.end:
			return
		case <-time.After(followPause):
		}
	}
}

// hear lists after each burst of news. It returns nil at the end, an error when the news have stopped.
func (a *Addresses) hear(news chan netlink.AddrUpdate) error {
	for {
		select {
		case <-a.end:
			return nil
		case _, ok := <-news:
			if !ok {
				return netlink.ErrDumpInterrupted
			}
		}
		for len(news) > 0 {
			<-news
		}
		if err := a.list(); err != nil {
			return err
		}
	}
}
