package route

import (
	"errors"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
)

const ours, theirs = 112, 4

// world is a namespace with a device eth0 that has addresses 10.8.0.1/24 and fd08::1/64, and a device tun0.
func world(t *testing.T) (*Kernel, *link.Kernel) {
	t.Helper()
	k, links, _ := worldIn(t)
	return k, links
}

func worldIn(t *testing.T) (*Kernel, *link.Kernel, *netns.NS) {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	links, err := link.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	k, err := Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close(); links.Close(); ns.Close() })
	must(t, links.AddPair(link.Pair{Name: "eth0", Peer: "eth1", MTU: 1500}))
	for _, a := range []string{"10.8.0.1/24", "fd08::1/64"} {
		must(t, links.AddAddr("eth0", netip.MustParsePrefix(a)))
	}
	for _, l := range []string{"eth0", "eth1", "lo"} {
		must(t, links.SetUp(l, true))
	}
	must(t, links.Put(link.Link{Name: "tun0", Kind: link.KindVXLAN, MAC: link.MAC{2, 9}, MTU: 1450, Up: true,
		VXLAN: &link.VXLAN{VNI: 5, Port: 4999, Local: netip.MustParseAddr("10.8.0.1")}}))
	// fd08::1 is given without a connected route: the test's own is somebody else's to the code under test.
	must(t, k.Put(Route{Dst: netip.MustParsePrefix("fd08::/64"), Device: "eth0", Proto: theirs}))
	return k, links, ns
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func doors(t *testing.T, test func(t *testing.T, d Door)) {
	t.Run("kernel", func(t *testing.T) { k, _ := world(t); test(t, k) })
	t.Run("fake", func(t *testing.T) { test(t, &Fake{}) })
}

func p(s string) netip.Prefix { return netip.MustParsePrefix(s) }
func a(s string) netip.Addr   { return netip.MustParseAddr(s) }

func wanted() []Route {
	return []Route{
		{Dst: p("10.244.2.0/24"), Via: a("10.8.0.2"), Device: "eth0", Proto: ours},
		{Dst: p("10.244.3.0/24"), Via: a("10.244.3.1"), Device: "tun0", OnLink: true, Proto: ours},
		{Dst: p("10.244.1.0/24"), Type: Unreachable, Proto: ours, Metric: 4096},
		{Dst: p("10.244.1.5/32"), Device: "eth0", Proto: ours},
		{Dst: p("0.0.0.0/0"), Via: a("10.8.0.9"), Device: "eth0", Proto: ours},
		{Dst: p("::/0"), Via: a("fd08::9"), Device: "eth0", Proto: ours},
		{Dst: p("fd44:2::/64"), Via: a("fd08::2"), Device: "eth0", Proto: ours},
		{Dst: p("fd44:3::/64"), Via: a("fd44:3::1"), Device: "tun0", OnLink: true, Proto: ours},
		{Dst: p("fd44:1::/64"), Type: Unreachable, Proto: ours, Metric: 4096},
		{Dst: p("fd44:1::5/128"), Device: "eth0", Proto: ours},
	}
}

func own(t *testing.T, d Door) map[Route]bool {
	t.Helper()
	all, err := d.Routes()
	must(t, err)
	out := map[Route]bool{}
	for _, r := range all {
		if r.Proto == ours {
			out[r] = true
		}
	}
	return out
}

func TestPutRoutesAreReadBackAsTheyWereWanted(t *testing.T) {
	doors(t, func(t *testing.T, d Door) {
		for range 2 {
			for _, r := range wanted() {
				must(t, d.Put(r))
			}
		}
		got := own(t, d)
		for _, r := range wanted() {
			if !got[r] {
				t.Errorf("missing: %s\nhave %v", r, got)
			}
			delete(got, r)
		}
		if len(got) != 0 {
			t.Errorf("too many: %v", got)
		}
		for range 2 {
			for _, r := range wanted() {
				must(t, d.Delete(r))
			}
		}
		if got := own(t, d); len(got) != 0 {
			t.Errorf("left: %v", got)
		}
	})
}

func TestAPutRouteReplacesOnlyOneOfTheSameProtocol(t *testing.T) {
	for _, dst := range []string{"10.244.2.0/24", "fd44:2::/64"} {
		t.Run(dst, func(t *testing.T) {
			doors(t, func(t *testing.T, d Door) {
				via := map[bool][2]netip.Addr{true: {a("10.8.0.2"), a("10.8.0.3")}, false: {a("fd08::2"), a("fd08::3")}}[p(dst).Addr().Is4()]
				r := Route{Dst: p(dst), Via: via[0], Device: "eth0", Proto: ours}
				must(t, d.Put(r))
				r.Via = via[1]
				must(t, d.Put(r))
				if got := own(t, d); len(got) != 1 || !got[r] {
					t.Fatalf("got %v", got)
				}
				must(t, d.Delete(r))
				foreign := r
				foreign.Proto = theirs
				must(t, d.Put(foreign))
				if err := d.Put(r); !errors.Is(err, ErrTaken) {
					t.Fatalf("got %v", err)
				}
				if got := own(t, d); len(got) != 0 {
					t.Fatalf("got %v", got)
				}
				must(t, d.Delete(r)) // must not hit the foreign one
				all, err := d.Routes()
				must(t, err)
				if m, ok := Match(all, p(dst).Addr().Next()); !ok || m != foreign {
					t.Fatalf("the foreign route became %v", m)
				}
			})
		})
	}
}

func TestLookupIsTheKernelsDecision(t *testing.T) {
	doors(t, func(t *testing.T, d Door) {
		for _, r := range wanted() {
			if r.Dst.Bits() > 0 {
				must(t, d.Put(r))
			}
		}
		for dst, want := range map[string]string{
			"10.244.2.9": "10.244.2.0/24", "10.244.1.5": "10.244.1.5/32", "fd44:3::9": "fd44:3::/64", "fd44:1::5": "fd44:1::5/128",
		} {
			got, err := d.Lookup(a(dst), netip.Addr{}, "")
			if err != nil || got.Dst != p(want) || got.Proto != ours {
				t.Errorf("%s: %v, %v", dst, got, err)
			}
		}
		for _, dst := range []string{"10.244.1.9", "fd44:1::9"} {
			if got, err := d.Lookup(a(dst), netip.Addr{}, ""); err == nil && got.Type != Unreachable || err != nil && !errors.Is(err, ErrNoRoute) {
				t.Errorf("%s: %v, %v", dst, got, err)
			}
		}
		for _, dst := range []string{"192.0.2.1", "2001:db8::1"} {
			if got, err := d.Lookup(a(dst), netip.Addr{}, ""); !errors.Is(err, ErrNoRoute) {
				t.Errorf("%s: %v, %v", dst, got, err)
			}
		}
	})
}

func TestNeighbourEntriesAreReadBackChangedAndDeleted(t *testing.T) {
	test := func(t *testing.T, d NeighbourDoor) {
		m := link.MAC{2, 0, 0, 0, 0, 9}
		want := []Neighbour{
			{Device: "tun0", Addr: a("10.244.3.1"), MAC: m},
			{Device: "tun0", Addr: a("fd44:3::1"), MAC: m},
			{Device: "tun0", Addr: a("10.8.0.3"), MAC: m, FDB: true},
		}
		for range 2 {
			for _, n := range want {
				must(t, d.PutNeighbour(n))
			}
		}
		want[0].MAC[5], want[2].Addr = 8, a("10.8.0.4")
		must(t, d.PutNeighbour(want[0]))
		must(t, d.PutNeighbour(want[2]))
		got, err := d.Neighbours("tun0")
		must(t, err)
		if len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
			t.Fatalf("got %v\nwant %v", got, want)
		}
		for range 2 {
			for _, n := range want {
				must(t, d.DeleteNeighbour(n))
			}
		}
		if got, err := d.Neighbours("tun0"); err != nil || len(got) != 0 {
			t.Fatalf("left: %v, %v", got, err)
		}
		if got, err := d.Neighbours("none0"); err != nil || len(got) != 0 {
			t.Fatalf("no device: %v, %v", got, err)
		}
	}
	t.Run("kernel", func(t *testing.T) { k, _ := world(t); test(t, k) })
	t.Run("fake", func(t *testing.T) { test(t, &Fake{}) })
}

func TestMatchTakesTheLongestPrefixThenTheLowestMetric(t *testing.T) {
	table := []Route{
		{Dst: p("0.0.0.0/0"), Device: "wan"}, {Dst: p("10.0.0.0/8"), Device: "slow", Metric: 20}, {Dst: p("10.0.0.0/8"), Device: "fast", Metric: 10},
		{Dst: p("fd00::/8"), Device: "six"}, {Dst: p("fd00::/8"), Device: "six-first", Metric: 5},
	}
	for dst, want := range map[string]string{"10.1.1.1": "fast", "192.0.2.1": "wan", "fd00::1": "six-first", "2001::1": ""} {
		if r, _ := Match(table, a(dst)); r.Device != want {
			t.Errorf("%s leaves by %q, want %q", dst, r.Device, want)
		}
	}
}
