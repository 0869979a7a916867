package ipvs

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	vnl "github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/nettest/vm"
)

func newConn(t *testing.T) (*Conn, *netns.NS) {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	err = ns.Do(func() error { // no destination is taken before the host has any address
		lo, err := vnl.LinkByName("lo")
		if err != nil {
			return err
		}
		return vnl.LinkSetUp(lo)
	})
	if err != nil {
		t.Fatal(err)
	}
	c, err := Open(ns, "virtual0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, ns
}

func TestTheKernelHasWhatWasWritten(t *testing.T) {
	vm.Test(t, vm.Machine{}, func(t *testing.T) {
		t.Run("every scheduler, protocol and family", everyKind)
		t.Run("destinations and what is there already", destinations)
		t.Run("the device and its addresses", device)
		t.Run("a device of another kind", foreignDevice)
		t.Run("timeouts", timeouts)
		t.Run("an unknown scheduler", unknownScheduler)
		t.Run("more operations than go together", many)
	})
}

func everyKind(t *testing.T) {
	c, _ := newConn(t)
	want := NewState()
	var ops []Op
	for i, sched := range Schedulers {
		for j, proto := range []uint8{TCP, UDP, SCTP} {
			for _, a := range []string{"10.96.0.7", "fd00:96::7"} {
				s := &Server{Key: Key{netip.AddrPortFrom(netip.MustParseAddr(a), uint16(1000+i)), proto}, Scheduler: sched,
					Fallback: sched == "sh" || sched == "mh", Persistence: time.Duration(j) * time.Hour, Dests: map[netip.AddrPort]Dest{}}
				want.Servers[s.Key] = s
				ops = append(ops, Op{Kind: AddServer, Server: s})
			}
		}
	}
	if err := c.Apply(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	have, err := c.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want.Text(""), have.Text("")); d != "" {
		t.Error(d)
	}
	for k, s := range want.Servers {
		got, err := c.Look(t.Context(), k)
		if err != nil || got == nil || !got.SameServer(s) {
			t.Errorf("look at %s: %+v, %v", k, got, err)
		}
		changed := *s
		changed.Scheduler, changed.Persistence, changed.Fallback = "wrr", 90*time.Second, false
		if err := c.Apply(t.Context(), []Op{{Kind: SetServer, Server: &changed}}); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Look(t.Context(), k); err != nil || !got.SameServer(&changed) {
			t.Errorf("changed %s: %+v, %v", k, got, err)
		}
		if err := c.Apply(t.Context(), []Op{{Kind: DelServer, Server: s}}); err != nil {
			t.Fatal(err)
		}
		if got, err := c.Look(t.Context(), k); err != nil || got != nil {
			t.Errorf("deleted %s: %+v, %v", k, got, err)
		}
	}
}

func destinations(t *testing.T) {
	c, _ := newConn(t)
	for _, x := range [][3]string{{"10.96.0.7:80", "10.244.1.5:8080", "10.244.2.6:8080"}, {"[fd00:96::7]:80", "[fd00:1::5]:8080", "[fd00:2::6]:8080"}} {
		s := &Server{Key: Key{netip.MustParseAddrPort(x[0]), TCP}, Scheduler: "rr"}
		one, two := netip.MustParseAddrPort(x[1]), netip.MustParseAddrPort(x[2])
		err := c.Apply(t.Context(), []Op{{Kind: AddServer, Server: s}, {Kind: AddDest, Server: s, To: one, Weight: 1}, {Kind: AddDest, Server: s, To: two, Weight: 3},
			{Kind: SetDest, Server: s, To: one, Weight: 0}})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Look(t.Context(), s.Key)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(map[string]Dest{x[1]: {}, x[2]: {Weight: 3}}, words(got.Dests)); d != "" {
			t.Error(d)
		}
		for _, op := range []struct {
			op   Op
			want error
		}{
			{Op{Kind: AddServer, Server: s}, ErrExist}, {Op{Kind: AddDest, Server: s, To: one, Weight: 1}, ErrExist},
			{Op{Kind: DelDest, Server: s, To: netip.AddrPortFrom(one.Addr(), 1)}, ErrNotExist},
			{Op{Kind: DelServer, Server: &Server{Key: Key{s.Addr, UDP}}}, ErrNotExist},
		} {
			if err := c.Apply(t.Context(), []Op{op.op}); !errors.Is(err, op.want) {
				t.Errorf("%s: %v, want %v", op.op, err, op.want)
			}
		}
		if err := c.Apply(t.Context(), []Op{{Kind: DelDest, Server: s, To: one}}); err != nil {
			t.Fatal(err)
		}
		if got, err = c.Look(t.Context(), s.Key); err != nil || len(got.Dests) != 1 {
			t.Errorf("after deleting one: %+v, %v", got, err)
		}
	}
}

func words(in map[netip.AddrPort]Dest) map[string]Dest {
	out := map[string]Dest{}
	for a, d := range in {
		out[a.String()] = d
	}
	return out
}

func device(t *testing.T) {
	c, _ := newConn(t)
	a4, a6 := netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd00:96::7")
	apply := func(ops ...Op) {
		t.Helper()
		for range 2 { // each is as good twice as once
			if err := c.Apply(t.Context(), ops); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := func(text string) {
		t.Helper()
		s, err := c.Read(t.Context())
		if err != nil || s.Text("virtual0") != text {
			t.Errorf("have %q, %v; want %q", s.Text("virtual0"), err, text)
		}
	}
	want("")
	apply(Op{Kind: AddDevice}, Op{Kind: AddAddr, IP: a4}, Op{Kind: AddAddr, IP: a6})
	want("device virtual0\n  address 10.96.0.7\n  address fd00:96::7\n")
	apply(Op{Kind: DelAddr, IP: a4})
	want("device virtual0\n  address fd00:96::7\n")
	apply(Op{Kind: DelDevice})
	want("")
	if err := c.Apply(t.Context(), []Op{{Kind: AddAddr, IP: a4}}); !errors.Is(err, ErrNotExist) {
		t.Errorf("an address without the device: %v", err)
	}
}

func foreignDevice(t *testing.T) {
	c, ns := newConn(t)
	err := ns.Do(func() error { return vnl.LinkAdd(&vnl.Bridge{LinkAttrs: vnl.LinkAttrs{Name: "virtual0"}}) })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply(t.Context(), []Op{{Kind: AddDevice}}); !errors.Is(err, ErrForeign) {
		t.Errorf("made over a bridge: %v", err)
	}
	if err := c.Apply(t.Context(), []Op{{Kind: DelDevice}}); !errors.Is(err, ErrForeign) {
		t.Errorf("a bridge is deleted: %v", err)
	}
}

func timeouts(t *testing.T) {
	c, _ := newConn(t)
	for range 2 {
		if err := c.SetTimeouts(t.Context(), Timeouts{TCP: 20 * time.Minute, UDP: 30 * time.Second}); err != nil {
			t.Fatal(err)
		}
	}
}

func unknownScheduler(t *testing.T) {
	c, _ := newConn(t)
	s := &Server{Key: Key{netip.MustParseAddrPort("10.96.0.7:80"), TCP}, Scheduler: "best"}
	if err := c.Apply(t.Context(), []Op{{Kind: AddServer, Server: s}}); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}

func many(t *testing.T) {
	c, _ := newConn(t)
	var ops []Op
	for i := range 1000 {
		s := &Server{Key: Key{netip.AddrPortFrom(netip.MustParseAddr("10.96.0.7"), uint16(i+1)), TCP}, Scheduler: "rr"}
		ops = append(ops, Op{Kind: AddServer, Server: s}, Op{Kind: AddDest, Server: s, To: netip.MustParseAddrPort("10.244.1.5:80"), Weight: 1})
	}
	start := time.Now()
	if err := c.Apply(t.Context(), ops); err != nil {
		t.Fatal(err)
	}
	wrote := time.Since(start)
	s, err := c.Read(t.Context())
	if err != nil || len(s.Servers) != 1000 {
		t.Fatalf("%d servers, %v", len(s.Servers), err)
	}
	t.Logf("1000 servers with a destination: written in %v, read in %v", wrote, time.Since(start)-wrote)
}

func TestAKernelWithoutIPVSIsSaidClearly(t *testing.T) {
	ns, err := netns.New()
	if err != nil {
		t.Skip(err)
	}
	defer ns.Close()
	c, err := Open(ns, "virtual0")
	if err == nil { // this kernel has it
		c.Close()
		return
	}
	if !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("got %v", err)
	}
}
