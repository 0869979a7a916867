package upstream

import (
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	recheck = 5 * time.Second // how often resolv.conf is looked at
	downFor = 5 * time.Second // how long a silent server is asked last
)

// server is one upstream server.
type server struct {
	addr  netip.AddrPort
	down  atomic.Int64 // unix nanoseconds until which it is asked last
	loops atomic.Bool  // what is sent to it comes back to us
}

func (s *server) fail(now time.Time) { s.down.Store(now.Add(downFor).UnixNano()) }

// servers is the list in use. It follows resolv.conf when that file changes.
type servers struct {
	o       Options
	probe   func(*server) // tests one for a loop
	mu      sync.Mutex
	list    []*server
	loaded  bool
	checked time.Time
	stamp   fileStamp
	probed  chan struct{} // closed when the list has been tested for loops
}

type fileStamp struct {
	mod  time.Time
	size int64
}

// get returns the list, read again when resolv.conf has changed, and the channel that is closed when it may be used.
func (s *servers) get(now time.Time) ([]*server, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded && now.Sub(s.checked) < recheck {
		return s.list, s.probed
	}
	s.checked = now
	if s.loaded && len(s.o.Servers) > 0 {
		return s.list, s.probed
	}
	stamp := stampOf(s.o.ResolvConf)
	if s.loaded && stamp == s.stamp {
		return s.list, s.probed
	}
	s.stamp = stamp
	s.load()
	return s.list, s.probed
}

func stampOf(path string) fileStamp {
	if i, err := os.Stat(path); err == nil {
		return fileStamp{i.ModTime(), i.Size()}
	}
	return fileStamp{}
}

// load makes the list anew; servers that were in the old one keep their state.
func (s *servers) load() {
	addrs := s.o.Servers
	if len(addrs) == 0 {
		var err error
		if addrs, err = readResolvConf(s.o.ResolvConf); err != nil {
			if s.loaded {
				return // the last good list stays
			}
			slog.Warn("upstream DNS servers cannot be read", "hop", "dns", "file", s.o.ResolvConf, "error", err)
		}
	}
	old, own := s.list, s.own()
	s.list, s.loaded, s.probed = nil, true, make(chan struct{})
	for _, a := range addrs {
		if own(a) {
			slog.Warn("upstream DNS server is this server itself: not used", "hop", "dns", "server", a)
			continue
		}
		if i := slices.IndexFunc(old, func(x *server) bool { return x.addr == a }); i >= 0 {
			s.list = append(s.list, old[i])
			continue
		}
		s.list = append(s.list, &server{addr: a})
	}
	slog.Info("upstream DNS servers", "hop", "dns", "servers", len(s.list))
	go s.probeAll(s.list, s.probed)
}

// probeAll tests all servers at once and then opens the list for use.
func (s *servers) probeAll(list []*server, done chan struct{}) {
	var wg sync.WaitGroup
	for _, x := range list {
		wg.Go(func() { s.probe(x) })
	}
	wg.Wait()
	close(done)
}

// own returns a test whether an address is one that we listen on ourselves.
func (s *servers) own() func(netip.AddrPort) bool {
	var local []netip.Addr
	_ = s.o.in(func() error {
		addrs, err := net.InterfaceAddrs()
		for _, a := range addrs {
			if p, ok := a.(*net.IPNet); ok {
				if ip, ok := netip.AddrFromSlice(p.IP); ok {
					local = append(local, ip.Unmap())
				}
			}
		}
		return err
	})
	return func(a netip.AddrPort) bool {
		for _, l := range s.o.Own {
			if l.Port() != a.Port() {
				continue
			}
			if l.Addr() == a.Addr() || l.Addr().IsUnspecified() && (a.Addr().IsUnspecified() || slices.Contains(local, a.Addr())) {
				return true
			}
		}
		return false
	}
}

// inOrder returns those that may be asked, silent ones last.
func inOrder(list []*server, now time.Time) []*server {
	var up, down []*server
	for _, s := range list {
		switch {
		case s.loops.Load():
		case s.down.Load() > now.UnixNano():
			down = append(down, s)
		default:
			up = append(up, s)
		}
	}
	return append(up, down...)
}
