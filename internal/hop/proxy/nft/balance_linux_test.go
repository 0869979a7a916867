package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/proxy/maglev"
	"github.com/podway/podway/internal/hop/proxy/proxytest/packets"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// answers is the endpoint that answers a connection.
func answers(l *packets.Lab, from *nettest.Host, d nettest.Dial) string {
	l.T.Helper()
	d.Timeout = 5 * time.Second
	r := from.Connect(l.T.Context(), d)
	if r.Result != nettest.Reached {
		l.T.Fatalf("%s %s: %s (%v)", d.Proto, d.Dst, r.Result, r.Err)
	}
	return r.Who
}

// A documented limit of kube-proxy: kubernetes issue 103000.
func TestAClientKeepsOneEndpointForAllPortsAndAddressesOfAService(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	l, all := packets.New(t, tried), []string{"a1", "a2", "b1"}
	l.Apply(append(l.Slices(all...), l.Service(packets.LoadBalancer, packets.Keeps))...)
	for range 4 {
		first := ""
		for _, dst := range []netip.AddrPort{packets.VIP4, l.NodePort(0), packets.LB4, packets.VIP4} {
			for _, proto := range []string{"tcp", "udp"} {
				got := answers(l, l.Pods["a3"], nettest.Dial{Proto: proto, Dst: dst})
				if first == "" {
					first = got
				}
				if got != first {
					t.Fatalf("%s to %s is answered by %s, the connections before by %s", proto, dst, got, first)
				}
			}
		}
		rest := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return p == first })
		l.Apply(l.Slices(rest...)...) // its endpoint goes: the next round finds another one, at every port
		if got := answers(l, l.Pods["a3"], nettest.Dial{Proto: "udp", Dst: packets.VIP4}); got == first {
			t.Fatalf("the client is kept on %s, which is not ready", first)
		}
		l.Apply(l.Slices(all...)...)
	}
}

func TestTheKernelChoosesByTheClientsAddressAsTheTableSays(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	l, all := packets.New(t, tried), []string{"a1", "a2", "b1"}
	byAddress := func(s *model.Service) { s.Annotations = map[string]string{"podway.io/balance": "maglev"} }
	l.Apply(append(l.Slices(all...), l.Service(byAddress))...)
	for i, vip := range []netip.AddrPort{packets.VIP4, packets.VIP6} {
		var list []netip.AddrPort
		for _, p := range all {
			list = append(list, netip.AddrPortFrom(netip.MustParseAddr(packets.PodAddrs[p][i]), 8080))
		}
		table := maglev.Table(list)
		for n := range 30 {
			d := l.Outside(vip)
			d.Proto, d.Src = []string{"tcp", "udp"}[n%2], netip.AddrFrom4([4]byte{203, 0, 113, byte(n + 20)})
			if i == 1 {
				d.Src = netip.MustParseAddr(fmt.Sprintf("fd00:203::%x", n+20))
			}
			want := all[table[maglev.Slot(d.Src, len(table))]]
			if got := answers(l, l.W.Outside(), d); got != want {
				t.Errorf("client %s of %s is answered by %s, the table says %s", d.Src, vip, got, want)
			}
		}
	}
}
