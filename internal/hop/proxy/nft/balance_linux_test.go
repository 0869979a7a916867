package nft

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/maglev"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// who is the endpoint that answers a Pod's connection.
func (l *lab) who(from *nettest.Host, d nettest.Dial) string {
	l.t.Helper()
	d.Timeout = 5 * time.Second
	r := from.Connect(l.t.Context(), d)
	if r.Result != nettest.Reached {
		l.t.Fatalf("%s %s: %s (%v)", d.Proto, d.Dst, r.Result, r.Err)
	}
	return r.Who
}

// A documented limit of kube-proxy: kubernetes issue 103000.
func TestAClientKeepsOneEndpointForAllPortsAndAddressesOfAService(t *testing.T) {
	l := newLab(t)
	more := func(s *model.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.101.7")} }
	l.apply(append(slices46("a1", "a2", "b1"), service(loadBalancer, keeps, more))...)
	pod := l.pods["a3"]
	for range 4 {
		first, again := "", 0
		for _, dst := range []netip.AddrPort{vip4, l.nodePort(0), netip.MustParseAddrPort("198.51.100.7:80"), netip.MustParseAddrPort("198.51.101.7:80"), vip4} {
			for _, proto := range []string{"tcp", "udp"} {
				got := l.who(pod, nettest.Dial{Proto: proto, Dst: dst})
				if first == "" {
					first = got
				}
				if again++; got != first {
					t.Fatalf("connection %d: %s to %s is answered by %s, the ones before by %s", again, proto, dst, got, first)
				}
			}
		}
		var rest []string
		for _, p := range []string{"a1", "a2", "b1"} {
			if p != first {
				rest = append(rest, p)
			}
		}
		l.apply(slices46(rest...)...) // its endpoint goes: the next round finds another one, at every port
		if got := l.who(pod, nettest.Dial{Proto: "udp", Dst: vip4}); got == first {
			t.Fatalf("the client is kept on %s, which is not ready", first)
		}
		l.apply(slices46("a1", "a2", "b1")...)
	}
}

func TestTheKernelChoosesByTheClientsAddressAsTheTableSays(t *testing.T) {
	l := newLab(t)
	byAddress := func(s *model.Service) { s.Annotations = map[string]string{"podway.io/balance": "maglev"} }
	l.apply(append(slices46("a1", "a2", "b1"), service(byAddress))...)
	for i, vip := range []netip.AddrPort{vip4, vip6} {
		var list []netip.AddrPort
		for _, p := range []string{"a1", "a2", "b1"} {
			list = append(list, netip.AddrPortFrom(netip.MustParseAddr(podAddrs[p][i]), 8080))
		}
		table := maglev.Table(list)
		for n := range 30 {
			src := netip.AddrFrom4([4]byte{203, 0, 113, byte(n + 20)})
			if i == 1 {
				src = netip.MustParseAddr(fmt.Sprintf("fd00:203::%x", n+20))
			}
			want := []string{"a1", "a2", "b1"}[table[maglev.Slot(src, len(table))]]
			d := l.outside(vip)
			d.Src, d.Proto = src, []string{"tcp", "udp"}[n%2]
			if got := l.who(l.w.Outside(), d); got != want {
				t.Errorf("client %s of %s is answered by %s, the table says %s", src, vip, got, want)
			}
		}
	}
}

func TestNodePortsAnswerAtEveryAddressThatTheNodeGets(t *testing.T) {
	l := newLab(t)
	addrs := []netip.Addr{}
	l.proxy = proxy.New(proxy.Options{Node: "node-a", Backend: In(l.a.NS()), Connections: l.connections,
		Settings: proxy.Settings{NodePorts: proxy.NodePortAddresses{All: true}}, Host: func() []netip.Addr { return addrs }})
	l.apply(append(slices46("a1"), service())...)
	more := netip.MustParseAddrPort(fmt.Sprintf("10.99.0.1:%d", nodePort))
	l.check(want{"an address that the node does not have", l.pods["a3"], nettest.Dial{Dst: more}, nettest.Dropped, nil, netip.Addr{}})
	addrs = append(addrs, more.Addr())
	if drift, err := l.proxy.Check(t.Context()); err != nil || drift == "" {
		t.Fatalf("nothing is said of the new address: %q, %v", drift, err)
	}
	l.have = nil
	l.apply()
	l.check(want{"an address that the node has now", l.pods["a3"], nettest.Dial{Dst: more}, nettest.Reached, []string{"a1"}, l.a.Addrs[0]},
		want{"the first address", l.pods["a3"], nettest.Dial{Dst: l.nodePort(0)}, nettest.Reached, []string{"a1"}, l.a.Addrs[0]})
}
