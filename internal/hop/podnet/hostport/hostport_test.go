package hostport

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/nft"
)

func pod(name string, addrs string, since int64, ports ...ipam.Port) ipam.Reservation {
	r := ipam.Reservation{Container: name, IfName: "eth0", Ports: ports, Since: time.Unix(since, 0)}
	for a := range strings.SplitSeq(addrs, " ") {
		r.Addrs = append(r.Addrs, netip.MustParseAddr(a))
	}
	return r
}

func to(r ipam.Reservation, proto uint8, src, dst string) string {
	p := nft.Packet{Proto: proto, Src: netip.MustParseAddrPort(src), Dst: netip.MustParseAddrPort(dst), Local: func(a netip.Addr) bool {
		return a.String() == "192.0.2.1" || a.String() == "192.0.2.2" || a.IsLoopback() || a.String() == "2001:db8::1"
	}}
	f := nft.IPv6
	if p.Dst.Addr().Is4() {
		f = nft.IPv4
	}
	out, err := nft.Eval([]*nft.Table{render(f, []ipam.Reservation{r})}, p)
	if err != nil || len(out) != 1 {
		return "error"
	}
	s := out[0].Dst.String()
	if out[0].Masquerade {
		s += " masquerade"
	}
	return s
}

func TestAPortOfTheNodeLeadsToThePod(t *testing.T) {
	r := pod("a", "10.244.1.5 fd44:1::5", 1, ipam.Port{Proto: "tcp", HostPort: 80, Port: 8080}, ipam.Port{Proto: "udp", HostPort: 53, Port: 5353},
		ipam.Port{Proto: "tcp", HostIP: netip.MustParseAddr("192.0.2.2"), HostPort: 81, Port: 8081},
		ipam.Port{Proto: "tcp", HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: 81, Port: 8082})
	for _, c := range []struct {
		proto     uint8
		src, dst  string
		want, why string
	}{
		{nft.TCP, "203.0.113.9:999", "192.0.2.1:80", "10.244.1.5:8080", "any address of the node"},
		{nft.TCP, "[2001:db8::9]:999", "[2001:db8::1]:80", "[fd44:1::5]:8080", "in both families"},
		{nft.UDP, "203.0.113.9:999", "192.0.2.2:53", "10.244.1.5:5353", "UDP"},
		{nft.UDP, "203.0.113.9:999", "192.0.2.2:80", "192.0.2.2:80", "another protocol"},
		{nft.TCP, "203.0.113.9:999", "192.0.2.2:81", "10.244.1.5:8081", "the address it is bound to"},
		{nft.TCP, "203.0.113.9:999", "192.0.2.1:81", "192.0.2.1:81", "another address than it is bound to"},
		{nft.TCP, "203.0.113.9:999", "198.51.100.1:80", "198.51.100.1:80", "another host"},
		{nft.TCP, "127.0.0.1:999", "127.0.0.1:80", "127.0.0.1:80", "loopback"},
		{nft.TCP, "127.0.0.1:999", "127.0.0.1:81", "127.0.0.1:81", "loopback, bound to loopback"},
		{nft.TCP, "203.0.113.9:999", "127.0.0.1:81", "127.0.0.1:81", "loopback from elsewhere"},
		{nft.TCP, "10.244.1.5:999", "192.0.2.1:80", "10.244.1.5:8080 masquerade", "the Pod itself"},
		{nft.TCP, "10.244.1.6:999", "192.0.2.1:80", "10.244.1.5:8080", "another Pod"},
	} {
		if got := to(r, c.proto, c.src, c.dst); got != c.want {
			t.Errorf("%s: %s -> %s: got %s, want %s", c.why, c.src, c.dst, got, c.want)
		}
	}
}

func TestTheNewestOfTwoPodsHasThePort(t *testing.T) {
	p := ipam.Port{Proto: "tcp", HostPort: 80, Port: 8080}
	old, young := pod("old", "10.244.1.5", 1, p), pod("young", "10.244.1.4", 2, p)
	for _, all := range [][]ipam.Reservation{{old, young}, {young, old}} {
		for _, v := range render(nft.IPv4, all).Sets["anywhere"].Elems {
			if got := nft.AddrOf(v[:4]).String(); got != "10.244.1.4" {
				t.Errorf("got %s", got)
			}
		}
	}
	if render(nft.IPv6, []ipam.Reservation{old}) != nil || render(nft.IPv4, nil) != nil {
		t.Error("a table for nothing")
	}
}

func TestSyncFollowsTheReservationsAndForgetsUDPConnectionsToWhoeverHadThePort(t *testing.T) {
	store, rules := ipam.Open(t.TempDir()), nft.NewFake()
	flow := func(dst, answers string) conntrack.Entry {
		return conntrack.Entry{Proto: conntrack.UDP, Src: netip.MustParseAddrPort("203.0.113.9:999"), Dst: netip.MustParseAddrPort(dst), AnswerSrc: netip.MustParseAddrPort(answers)}
	}
	stays := []conntrack.Entry{
		flow("198.51.100.1:53", "198.51.100.1:53"), // another host's port of the same number
		flow("192.0.2.1:54", "192.0.2.1:54"),       // another port
	}
	flows := conntrack.NewFake(append(stays, flow("192.0.2.1:53", "10.244.1.9:5353"), flow("192.0.2.1:53", "192.0.2.1:53"))...)
	d := Doors{
		Rules: rules, Flows: func() (conntrack.Table, error) { return flows, nil },
		Local: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil },
	}
	sync := func(want int) {
		t.Helper()
		if n, err := Sync(context.Background(), store, d); err != nil || n != want {
			t.Fatalf("%d tables changed, want %d: %v", n, want, err)
		}
		all, err := store.List()
		if err != nil {
			t.Fatal(err)
		}
		if differ, err := Differ(context.Background(), store, all, rules); err != nil || differ {
			t.Errorf("differ after Sync: %v, %v", differ, err)
		}
	}
	sync(0)
	_, err := store.Reserve(pod("a", "10.244.1.5", 1, ipam.Port{Proto: "udp", HostPort: 53, Port: 5353}), []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	sync(1)
	flows.Add(flow("192.0.2.1:53", "10.244.1.2:5353"))
	sync(0)
	if left, _ := flows.List(context.Background(), conntrack.UDP); len(left) != 3 {
		t.Errorf("left %v", left)
	}
	if err := store.Release("a", "eth0"); err != nil {
		t.Fatal(err)
	}
	sync(1)
	if left, _ := flows.List(context.Background(), conntrack.UDP); len(left) != 2 || left[0] != stays[0] || left[1] != stays[1] {
		t.Errorf("left %v", left)
	}
	if len(rules.Tables()) != 0 {
		t.Errorf("left %v", rules.Tables())
	}
}

// deaf is a table of connections that deletes nothing until it is mended.
type deaf struct {
	conntrack.Table
	broken *error
}

func (d deaf) Delete(ctx context.Context, proto uint8, stale func(conntrack.Entry) bool) (int, error) {
	if *d.broken != nil {
		return 0, *d.broken
	}
	return d.Table.Delete(ctx, proto, stale)
}

func TestConnectionsThatCouldNotBeForgottenAreForgottenByTheNextSync(t *testing.T) {
	dir, rules := t.TempDir(), nft.NewFake()
	store := ipam.Open(dir)
	old := conntrack.Entry{Proto: conntrack.UDP, Src: netip.MustParseAddrPort("203.0.113.9:999"), Dst: netip.MustParseAddrPort("192.0.2.1:53"), AnswerSrc: netip.MustParseAddrPort("192.0.2.1:53")}
	flows, broken := conntrack.NewFake(old), errors.New("no buffer space")
	d := Doors{
		Rules: rules, Flows: func() (conntrack.Table, error) { return deaf{flows, &broken}, nil },
		Local: func() ([]netip.Addr, error) { return []netip.Addr{netip.MustParseAddr("192.0.2.1")}, nil },
	}
	if _, err := store.Reserve(pod("a", "10.244.1.5", 1, ipam.Port{Proto: "udp", HostPort: 53, Port: 5353}), []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, nil); err != nil {
		t.Fatal(err)
	}
	if n, err := Sync(context.Background(), store, d); n != 1 || !errors.Is(err, broken) {
		t.Fatalf("%d tables changed, %v", n, err)
	}
	broken = nil
	next := ipam.Open(dir) // another process
	all, err := next.List()
	if err != nil {
		t.Fatal(err)
	}
	if differ, err := Differ(context.Background(), next, all, rules); err != nil || !differ {
		t.Errorf("nothing is left to do: %t, %v", differ, err)
	}
	if n, err := Sync(context.Background(), next, d); n != 0 || err != nil {
		t.Fatalf("%d tables changed, %v", n, err)
	}
	if left, _ := flows.List(context.Background(), conntrack.UDP); len(left) != 0 {
		t.Errorf("left %v", left)
	}
	if differ, err := Differ(context.Background(), next, all, rules); err != nil || differ {
		t.Errorf("something is left to do: %t, %v", differ, err)
	}
}
