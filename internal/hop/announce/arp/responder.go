package arp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/hop/announce"
	"github.com/podway/podway/internal/kernel/packet"
)

const (
	burst     = 3                      // gratuitous announcements when an address comes here
	burstGap  = 300 * time.Millisecond // between them
	refresh   = 60 * time.Second       // between later ones, so that switches do not forget the port
	jitter    = refresh / 10
	defendGap = 10 * time.Second // RFC 5227: DEFEND_INTERVAL
	doubt     = time.Second      // how long another claimant may be the next owner, who saw the change first
	readPause = 100 * time.Millisecond

	arrangeRetry = 5 * time.Second // after a device that changed could not be listened on
)

// wire is the door to the segment.
type wire interface {
	Interfaces() ([]packet.Interface, error)
	Listen(index int) (conn, error)
	Changes(ctx context.Context) (<-chan struct{}, error)
}

type conn interface {
	Read() (packet.Frame, error)
	Write(to packet.MAC, payload []byte) error
	Close() error
}

// Responder answers for addresses. It is an announce.Announcer.
type Responder struct {
	only    []string
	wire    wire
	log     *slog.Logger
	metrics *Metrics

	// answers is what readers go by; it is replaced as a whole, so that a withdrawn address is silent at once.
	answers atomic.Pointer[map[place]struct{}]

	mu     sync.Mutex
	closed bool
	stop   context.CancelFunc // nil before the first Announce
	wake   chan struct{}
	wg     sync.WaitGroup
	all    []packet.Interface
	socks  map[int]*socket
	addrs  map[netip.Addr]*address
}

// place is an address on a device.
type place struct {
	index int
	addr  netip.Addr
}

type socket struct {
	iface packet.Interface
	conn  conn
	told  bool // the addresses were announced on it
}

// address is one that this node announces.
type address struct {
	on       []packet.Interface
	problem  string
	left     int       // announcements of the burst still to come
	due      time.Time // of the next announcement
	rival    string    // another station that claims it
	rivalAt  time.Time
	defended time.Time
}

var _ announce.Announcer = (*Responder)(nil)

func newResponder(w wire, only []string, log *slog.Logger) *Responder {
	r := &Responder{only: only, wire: w, log: cmp.Or(log, slog.Default()), wake: make(chan struct{}, 1),
		socks: map[int]*socket{}, addrs: map[netip.Addr]*address{}}
	r.answers.Store(&map[place]struct{}{})
	return r
}

// Announce answers for the IPv4 addresses of want, and for no others, when it returns.
func (r *Responder) Announce(_ context.Context, want []announce.Claim) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return fmt.Errorf("arp: announce: %w", net.ErrClosed)
	}
	next := map[netip.Addr]*address{}
	for _, c := range want {
		if !c.Addr.Is4() {
			continue
		}
		if next[c.Addr] = r.addrs[c.Addr]; next[c.Addr] == nil {
			next[c.Addr] = &address{}
		}
	}
	for a := range r.addrs {
		if next[a] == nil {
			r.log.Info("address withdrawn", "hop", "announce", "addr", a.String())
		}
	}
	r.addrs = next
	r.start()
	return r.arrange(time.Now())
}

// start begins to follow the devices, once.
func (r *Responder) start() {
	if r.stop != nil {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	r.stop = stop
	r.wg.Go(func() { r.run(ctx) })
}

// arrange brings sockets and answers in line with the devices there are, and announces what is new at once. When the
// devices cannot be listed, the last known ones stand.
func (r *Responder) arrange(now time.Time) error {
	all, err := r.wire.Interfaces()
	if err == nil {
		r.all = all
	}
	on, needed := usable(r.all, r.only), map[int]packet.Interface{}
	for a, st := range r.addrs {
		st.on, st.problem = where(a, on), ""
		if dev := ownedBy(a, r.all); dev != "" {
			st.on, st.problem = nil, "it is an address of this node's device "+dev
		} else if len(st.on) == 0 {
			st.problem = "no device to answer on"
		}
		for _, i := range st.on {
			needed[i.Index] = i
		}
	}
	err = errors.Join(err, r.open(needed))
	r.publish(now)
	select {
	case r.wake <- struct{}{}:
	default:
	}
	return err
}

// publish gives the readers what to answer, and begins a burst for each address that is new on a device.
func (r *Responder) publish(now time.Time) {
	was, answers, answering := *r.answers.Load(), map[place]struct{}{}, 0
	for a, st := range r.addrs {
		fresh, here := false, 0
		for _, i := range st.on {
			s := r.socks[i.Index]
			if s == nil {
				continue
			}
			p := place{i.Index, a}
			answers[p] = struct{}{}
			here = 1
			_, known := was[p]
			fresh = fresh || !known || !s.told
		}
		if answering += here; fresh {
			st.left, st.due = burst, now
			r.log.Info("address announced", "hop", "announce", "addr", a.String(), "devices", names(st.on))
		}
	}
	for _, s := range r.socks {
		s.told = true
	}
	r.answers.Store(&answers)
	r.metrics.answering(answering)
	r.beat(now)
}

// open opens and closes sockets so that there is one on each needed device.
func (r *Responder) open(needed map[int]packet.Interface) error {
	for index, s := range r.socks {
		if i, ok := needed[index]; !ok || i.MAC != s.iface.MAC {
			s.conn.Close()
			delete(r.socks, index)
		}
	}
	var errs []error
	for index, i := range needed {
		if r.socks[index] != nil {
			continue
		}
		c, err := r.wire.Listen(index)
		if err != nil {
			errs = append(errs, fmt.Errorf("arp: listen on %s: %w", i.Name, err))
			continue
		}
		s := &socket{iface: i, conn: c}
		r.socks[index] = s
		r.wg.Go(func() { r.read(s) })
	}
	return errors.Join(errs...)
}

// beat sends the announcements that are due and returns when the next one is.
func (r *Responder) beat(now time.Time) (next time.Time) {
	next = now.Add(refresh)
	for a, st := range r.addrs {
		if len(st.on) == 0 {
			continue
		}
		if !st.due.After(now) {
			r.tell(a, st)
			st.due = now.Add(refresh - jitter + rand.N(2*jitter))
			if st.left--; st.left > 0 {
				st.due = now.Add(burstGap)
			}
		}
		if st.due.Before(next) {
			next = st.due
		}
	}
	return next
}

func (r *Responder) tell(a netip.Addr, st *address) {
	r.metrics.told()
	for _, i := range st.on {
		s := r.socks[i.Index]
		if s == nil {
			continue
		}
		for _, m := range gratuitous(a, i.MAC) {
			if err := s.conn.Write(packet.Broadcast, m.bytes()); err != nil {
				r.log.Warn("gratuitous ARP not sent", "hop", "announce", "addr", a.String(), "device", i.Name, "err", err)
			}
		}
	}
}

// Status is what is answered now, by address.
func (r *Responder) Status() []announce.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]announce.Status, 0, len(r.addrs))
	for a, st := range r.addrs {
		s := announce.Status{Addr: a, Problem: st.problem}
		for _, i := range st.on {
			if r.socks[i.Index] != nil {
				s.Interfaces = append(s.Interfaces, i.Name)
			}
		}
		if st.rival != "" && time.Since(st.rivalAt) < 2*refresh {
			s.Problem = "another station claims it: " + st.rival
		}
		out = append(out, s)
	}
	slices.SortFunc(out, func(a, b announce.Status) int { return a.Addr.Compare(b.Addr) })
	return out
}

// Close withdraws everything and waits for its goroutines.
func (r *Responder) Close() error {
	r.mu.Lock()
	r.closed = true
	r.addrs = map[netip.Addr]*address{}
	r.answers.Store(&map[place]struct{}{})
	r.metrics.answering(0)
	err := r.open(nil)
	if r.stop != nil {
		r.stop()
	}
	r.mu.Unlock()
	r.wg.Wait()
	return err
}
