package arp

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/hop/announce"
	"github.com/podway/podway/internal/kernel/packet"
)

// segment is a wire in memory: what the Responder sends is recorded with the time, and frames can be put in.
type segment struct {
	mu      sync.Mutex
	devices []packet.Interface
	changes chan struct{}
	in      map[int]chan packet.Frame
	sent    []sent
	refuse  error  // of Listen
	before  func() // what happens before Changes follows the devices
}

type sent struct {
	at    time.Time
	index int
	to    mac
	m     message
}

type port struct {
	s     *segment
	index int
	in    chan packet.Frame
	end   chan struct{}
}

func newSegment(devices ...packet.Interface) *segment {
	return &segment{devices: devices, changes: make(chan struct{}, 1), in: map[int]chan packet.Frame{}}
}

func (s *segment) Interfaces() ([]packet.Interface, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.devices), nil
}

func (s *segment) Listen(index int) (conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.refuse != nil {
		return nil, s.refuse
	}
	p := &port{s: s, index: index, in: make(chan packet.Frame, 10), end: make(chan struct{})}
	s.in[index] = p.in
	return p, nil
}

func (s *segment) Changes(context.Context) (<-chan struct{}, error) {
	if s.before != nil {
		s.before()
	}
	return s.changes, nil
}

func (s *segment) set(devices ...packet.Interface) {
	s.mu.Lock()
	s.devices = devices
	s.mu.Unlock()
	s.changes <- struct{}{}
	synctest.Wait()
}

func (p *port) Read() (packet.Frame, error) {
	select {
	case f := <-p.in:
		return f, nil
	case <-p.end:
		return packet.Frame{}, net.ErrClosed
	}
}

func (p *port) Write(to packet.MAC, b []byte) error {
	m, _ := parse(b)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.sent = append(p.s.sent, sent{time.Now(), p.index, to, m})
	return nil
}

func (p *port) Close() error { close(p.end); return nil }

// take returns what was sent since the last call.
func (s *segment) take() (out []sent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out, s.sent = s.sent, nil
	return out
}

// hear lets a frame come in and returns what the Responder says to it.
func (s *segment) hear(index int, m message) []sent {
	s.take()
	s.mu.Lock()
	in := s.in[index]
	s.mu.Unlock()
	in <- packet.Frame{Payload: m.bytes(), From: m.senderMAC}
	synctest.Wait()
	return s.take()
}

func dev(index int, name, subnet string) packet.Interface {
	return packet.Interface{Name: name, Index: index, MAC: mac{2, 0, 0, 0, 0, byte(index)}, Up: true, Addrs: []netip.Prefix{netip.MustParsePrefix(subnet)}}
}

func claims(addrs ...string) (out []announce.Claim) {
	for _, a := range addrs {
		out = append(out, announce.Claim{Addr: netip.MustParseAddr(a)})
	}
	return out
}

func run(t *testing.T, s *segment, test func(r *Responder)) {
	synctest.Test(t, func(t *testing.T) {
		s.changes = make(chan struct{}, 1)
		r := newResponder(s, nil, slog.New(slog.DiscardHandler))
		reg := prometheus.NewPedanticRegistry()
		r.metrics = NewMetrics(reg)
		test(r)
		if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
			t.Errorf("promlint: %v %v", problems, err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
		if n := testutil.ToFloat64(r.metrics.addresses); n != 0 {
			t.Errorf("%v addresses after Close", n)
		}
		close(s.changes)
	})
}

func request(target netip.Addr) message {
	return message{op: opRequest, senderMAC: other, sender: ask, target: target}
}

func TestOnlyRequestsForOwnedAddressesAreAnswered(t *testing.T) {
	s := newSegment(dev(1, "eth0", "10.8.0.11/24"))
	run(t, s, func(r *Responder) {
		if err := r.Announce(t.Context(), claims("10.8.0.200", "2001:db8::1")); err != nil {
			t.Fatal(err)
		}
		got := s.hear(1, request(vip))
		want := []message{{op: opReply, senderMAC: mac{2, 0, 0, 0, 0, 1}, sender: vip, targetMAC: other, target: ask}}
		if len(got) != 1 || got[0].m != want[0] || got[0].to != other {
			t.Errorf("got %+v", got)
		}
		for name, m := range map[string]message{
			"another address": request(netip.MustParseAddr("10.8.0.201")),
			"a reply":         {op: opReply, senderMAC: other, sender: ask, targetMAC: me, target: vip},
			"its own":         {op: opRequest, senderMAC: mac{2, 0, 0, 0, 0, 1}, sender: ask, target: vip},
		} {
			if got := s.hear(1, m); len(got) != 0 {
				t.Errorf("%s is answered: %+v", name, got)
			}
		}
		if n := testutil.ToFloat64(r.metrics.replies); n != 1 || testutil.ToFloat64(r.metrics.addresses) != 1 {
			t.Errorf("%v replies counted", n)
		}
		if err := r.Announce(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if s.take(); len(r.Status()) != 0 {
			t.Error("withdrawn, and still in the status")
		}
	})
}

func TestAGainedAddressIsToldThreeTimesAndThenEveryMinute(t *testing.T) {
	s := newSegment(dev(1, "eth0", "10.8.0.11/24"))
	run(t, s, func(r *Responder) {
		start := time.Now()
		if err := r.Announce(t.Context(), claims("10.8.0.200")); err != nil {
			t.Fatal(err)
		}
		if got := s.take(); len(got) != 2 || got[0].to != mac(packet.Broadcast) || got[0].m.sender != vip || got[0].m.target != vip {
			t.Fatalf("before Announce returns: %+v", got)
		}
		time.Sleep(time.Second)
		if got := s.take(); len(got) != 4 || got[0].at.Sub(start) != burstGap || got[2].at.Sub(start) != 2*burstGap {
			t.Errorf("within a second: %+v", got)
		}
		time.Sleep(10 * time.Minute)
		if n := len(s.take()) / 2; n < 9 || n > 12 {
			t.Errorf("%d announcements in ten minutes", n)
		}
		if err := r.Announce(t.Context(), claims("10.8.0.200")); err != nil || len(s.take()) != 0 {
			t.Errorf("the same set again announces: %v", err)
		}
		if err := r.Announce(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		if got := s.take(); len(got) != 0 {
			t.Errorf("a withdrawn address is announced: %+v", got)
		}
	})
}

func TestAnAddressIsAnnouncedWhereItsSubnetIs(t *testing.T) {
	down := dev(5, "eth5", "10.8.0.15/24")
	down.Up = false
	on := []packet.Interface{dev(1, "eth0", "10.8.0.11/24"), dev(2, "eth1", "192.0.2.11/24"), dev(3, "vethabc", "10.244.0.1/24"),
		{Name: "kube-ipvs0", Index: 4, NoARP: true, Dummy: true, Addrs: []netip.Prefix{netip.MustParsePrefix("10.8.0.200/32")}}, down}
	for addr, want := range map[string][]string{
		"10.8.0.200":  {"eth0"},
		"192.0.2.7":   {"eth1"},
		"203.0.113.9": {"eth0", "eth1"}, // routed to the segment by hand
	} {
		if d := cmp.Diff(want, names(where(netip.MustParseAddr(addr), usable(on, nil)))); d != "" {
			t.Errorf("%s: %s", addr, d)
		}
	}
	if d := cmp.Diff([]string{"vethabc"}, names(usable(on, []string{"veth*"}))); d != "" {
		t.Errorf("chosen by name: %s", d)
	}
	s := newSegment(on...)
	run(t, s, func(r *Responder) {
		if err := r.Announce(t.Context(), claims("10.8.0.11", "10.8.0.200")); err != nil {
			t.Fatal(err)
		}
		want := []announce.Status{{Addr: netip.MustParseAddr("10.8.0.11"), Problem: "it is an address of this node's device eth0"},
			{Addr: vip, Interfaces: []string{"eth0"}}}
		if d := cmp.Diff(want, r.Status(), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
			t.Error(d)
		}
	})
}

func TestADeviceThatComesBackIsTold(t *testing.T) {
	s := newSegment(dev(1, "eth0", "10.8.0.11/24"))
	run(t, s, func(r *Responder) {
		if err := r.Announce(t.Context(), claims("10.8.0.200")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		s.set()
		if st := r.Status(); len(st) != 1 || st[0].Problem == "" || len(st[0].Interfaces) != 0 {
			t.Errorf("without a device: %+v", st)
		}
		s.take()
		s.set(dev(1, "eth0", "10.8.0.11/24"))
		if got := s.take(); len(got) != 2 {
			t.Errorf("after it came back: %+v", got)
		}
	})
}

func TestADeviceThatGoesBeforeTheDevicesAreFollowedIsNoticed(t *testing.T) {
	s := newSegment(dev(1, "eth0", "10.8.0.11/24"))
	s.before = func() {
		time.Sleep(time.Second) // so that Announce has looked at the devices
		s.mu.Lock()
		s.devices = nil
		s.mu.Unlock()
	}
	run(t, s, func(r *Responder) {
		if err := r.Announce(t.Context(), claims("10.8.0.200")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if st := r.Status(); len(st) != 1 || len(st[0].Interfaces) != 0 {
			t.Errorf("the device is gone: %+v", st)
		}
	})
}

func TestADeviceThatCouldNotBeListenedOnIsTriedAgain(t *testing.T) {
	s := newSegment(dev(1, "eth0", "10.8.0.11/24"))
	run(t, s, func(r *Responder) {
		if err := r.Announce(t.Context(), claims("10.8.0.200")); err != nil {
			t.Fatal(err)
		}
		s.set()
		s.mu.Lock()
		s.refuse = errors.New("no buffer space")
		s.mu.Unlock()
		s.set(dev(1, "eth0", "10.8.0.11/24"))
		if st := r.Status(); len(st) != 1 || len(st[0].Interfaces) != 0 {
			t.Errorf("while it is refused: %+v", st)
		}
		s.mu.Lock()
		s.refuse = nil
		s.mu.Unlock()
		time.Sleep(arrangeRetry)
		synctest.Wait()
		if st := r.Status(); len(st) != 1 || len(st[0].Interfaces) != 1 {
			t.Errorf("without another change of the devices: %+v", st)
		}
	})
}

func TestARivalIsToldOnlyIfTheAddressStaysHere(t *testing.T) {
	rival := message{op: opRequest, senderMAC: other, sender: vip, target: vip}
	s := newSegment(dev(1, "eth0", "10.8.0.11/24"))
	run(t, s, func(r *Responder) {
		if err := r.Announce(t.Context(), claims("10.8.0.200")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		if got := s.hear(1, rival); len(got) != 0 {
			t.Errorf("it is told at once: %+v", got)
		}
		time.Sleep(1500 * time.Millisecond)
		if got := s.take(); len(got) != 2 {
			t.Errorf("after a second: %+v", got)
		}
		if st := r.Status(); st[0].Problem != "another station claims it: "+net.HardwareAddr(other[:]).String() {
			t.Errorf("status %+v", st)
		}
		time.Sleep(20 * time.Second)
		s.hear(1, rival) // the next owner
		if err := r.Announce(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		if got := s.take(); len(got) != 0 {
			t.Errorf("the address went to the rival, and is still defended: %+v", got)
		}
	})
}
