package packets

import (
	"math"
	"net/netip"
	"slices"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// Run runs all tests.
func Run(t *testing.T, s Subject) {
	for _, x := range []struct {
		name string
		test func(*Lab)
		one  bool // of one transport: it says nothing of others
	}{
		{"packets reach endpoints and are seen from the right address", reach, false},
		{"policy Local keeps the client's address, or drops", policyLocal, false},
		{"both policies Local", bothLocal, false},
		{"nothing there is refused at once", refused, false},
		{"a Pod reaches itself through its Service", hairpin, false},
		{"source ranges let only their clients in", sourceRanges, false},
		{"a client keeps its endpoint until it is not ready", affinity, true},
		{"endpoints are chosen evenly", evenly, true},
		{"UDP clients move when their endpoint goes, and only they", datagrams, true},
		{"UDP that began before the Service is not lost", early, true},
	} {
		if x.one && len(s.Elsewhere) > 0 {
			continue
		}
		t.Run(x.name, func(t *testing.T) { x.test(New(t, s)) })
	}
	if slices.Contains(s.Protos, flow.SCTP) {
		t.Run("SCTP clients move when their endpoint goes", func(t *testing.T) { associations(New(t, s)) })
	}
}

func reach(l *Lab) {
	l.Apply(append(l.Slices("a1", "b1"), l.Service())...)
	eps := []string{"a1", "b1"}
	for i, vip := range []netip.AddrPort{VIP4, VIP6} {
		l.Check(
			Want{"Pod to ClusterIP", l.Pods["a3"], nettest.Dial{Dst: vip}, nettest.Reached, eps, netip.MustParseAddr(PodAddrs["a3"][i])},
			Want{"node to ClusterIP", l.A, nettest.Dial{Dst: vip}, nettest.Reached, eps, netip.Addr{}},
			Want{"outside to ClusterIP", l.W.Outside(), l.Outside(vip), nettest.Reached, eps, netip.Addr{}},
			Want{"outside to NodePort", l.W.Outside(), l.Outside(l.NodePort(i)), nettest.Reached, eps, netip.Addr{}},
			Want{"Pod to NodePort", l.Pods["a3"], nettest.Dial{Dst: l.NodePort(i)}, nettest.Reached, eps, netip.Addr{}},
			Want{"node to its own NodePort", l.A, nettest.Dial{Dst: l.NodePort(i)}, nettest.Reached, eps, netip.Addr{}},
		)
	}
	l.Apply(l.Slices("b1")...)
	for i, vip := range []netip.AddrPort{VIP4, VIP6} {
		l.Check(
			Want{"NodePort to another node's Pod", l.W.Outside(), l.Outside(l.NodePort(i)), nettest.Reached, []string{"b1"}, l.A.Addrs[i]},
			Want{"outside to ClusterIP, another node's Pod", l.W.Outside(), l.Outside(vip), nettest.Reached, []string{"b1"}, l.A.Addrs[i]},
			Want{"node to ClusterIP, another node's Pod", l.A, nettest.Dial{Dst: vip}, nettest.Reached, []string{"b1"}, l.A.Addrs[i]},
		)
	}
}

func policyLocal(l *Lab) {
	l.Apply(append(l.Slices("a1", "b1"), l.Service(LoadBalancer, Local))...)
	for i, client := range []netip.Addr{Client4, Client6} {
		l.Check(Want{"outside", l.W.Outside(), l.Outside(l.NodePort(i)), nettest.Reached, []string{"a1"}, client},
			Want{"Pod", l.Pods["a3"], nettest.Dial{Dst: l.NodePort(i)}, nettest.Reached, []string{"a1", "b1"}, netip.MustParseAddr(PodAddrs["a3"][i])})
	}
	l.Check(Want{"outside to the load balancer's address", l.W.Outside(), l.Outside(LB4), nettest.Reached, []string{"a1"}, Client4})
	l.Apply(l.Slices("b1")...)
	for i := range 2 {
		l.Check(Want{"outside without a local endpoint", l.W.Outside(), l.Outside(l.NodePort(i)), nettest.Dropped, nil, netip.Addr{}},
			Want{"Pod without a local endpoint", l.Pods["a3"], nettest.Dial{Dst: l.NodePort(i)}, nettest.Reached, []string{"b1"}, netip.MustParseAddr(PodAddrs["a3"][i])},
			Want{"node without a local endpoint", l.A, nettest.Dial{Dst: l.NodePort(i)}, nettest.Reached, []string{"b1"}, l.A.Addrs[i]})
	}
	l.Check(Want{"outside to the load balancer's address without a local endpoint", l.W.Outside(), l.Outside(LB4), nettest.Dropped, nil, netip.Addr{}},
		Want{"Pod to the load balancer's address without a local endpoint", l.Pods["a3"], nettest.Dial{Dst: LB4}, nettest.Reached, []string{"b1"}, netip.MustParseAddr(PodAddrs["a3"][0])},
		Want{"node to the load balancer's address without a local endpoint", l.A, nettest.Dial{Dst: LB4}, nettest.Reached, []string{"b1"}, l.A.Addrs[0]})
}

func bothLocal(l *Lab) {
	l.Apply(append(l.Slices("a1"), l.Service(LoadBalancer, Local, InternalLocal))...)
	l.Check(Want{"Pod to ClusterIP", l.Pods["a3"], nettest.Dial{Dst: VIP4}, nettest.Reached, []string{"a1"}, netip.MustParseAddr(PodAddrs["a3"][0])})
	l.Apply(l.Slices("b1")...)
	for i, vip := range []netip.AddrPort{VIP4, VIP6} {
		l.Check(Want{"Pod to ClusterIP without a local endpoint", l.Pods["a3"], nettest.Dial{Dst: vip}, nettest.Dropped, nil, netip.Addr{}},
			Want{"Pod to NodePort without a local endpoint", l.Pods["a3"], nettest.Dial{Dst: l.NodePort(i)}, nettest.Reached, []string{"b1"}, netip.MustParseAddr(PodAddrs["a3"][i])})
	}
	l.Check(Want{"Pod to the load balancer's address", l.Pods["a3"], nettest.Dial{Dst: LB4}, nettest.Reached, []string{"b1"}, netip.MustParseAddr(PodAddrs["a3"][0])})
}

func refused(l *Lab) {
	l.Apply(l.Service())
	for i, vip := range []netip.AddrPort{VIP4, VIP6} {
		l.Check(
			Want{"Pod to ClusterIP", l.Pods["a3"], nettest.Dial{Dst: vip}, nettest.Refused, nil, netip.Addr{}},
			Want{"node to ClusterIP", l.A, nettest.Dial{Dst: vip}, nettest.Refused, nil, netip.Addr{}},
			Want{"outside to NodePort", l.W.Outside(), l.Outside(l.NodePort(i)), nettest.Refused, nil, netip.Addr{}},
		)
	}
	l.Apply(l.Slices("a1")...)
	for i, vip := range []netip.AddrPort{VIP4, VIP6} {
		other := netip.AddrPortFrom(vip.Addr(), SSH)
		l.Check(
			Want{"the node's own port at a ClusterIP, from a Pod", l.Pods["a3"], nettest.Dial{Dst: other}, nettest.Refused, nil, netip.Addr{}},
			Want{"the node's own port at a ClusterIP, from the node", l.A, nettest.Dial{Dst: other}, nettest.Refused, nil, netip.Addr{}},
			Want{"the node's own port at its own address", l.Pods["a3"], nettest.Dial{Dst: netip.AddrPortFrom(l.A.Addrs[i], SSH)}, nettest.Reached, []string{"node-a"}, netip.Addr{}},
			Want{"and the Service's own port works now", l.Pods["a3"], nettest.Dial{Dst: vip}, nettest.Reached, []string{"a1"}, netip.Addr{}},
		)
	}
}

func hairpin(l *Lab) {
	l.Apply(append(l.Slices("a1"), l.Service())...)
	for i, vip := range []netip.AddrPort{VIP4, VIP6} {
		l.Check(Want{"hairpin", l.Pods["a1"], nettest.Dial{Dst: vip}, nettest.Reached, []string{"a1"}, netip.Addr{}})
		r := l.Pods["a1"].Connect(l.T.Context(), nettest.Dial{Proto: "tcp", Dst: vip, Timeout: l.patience()})
		if own := netip.MustParseAddr(PodAddrs["a1"][i]); r.Saw.Addr() == own || !r.Saw.IsValid() {
			l.T.Errorf("the Pod sees its own request from %s, want the node", r.Saw)
		}
	}
}

func sourceRanges(l *Lab) {
	l.Apply(append(l.Slices("a1"), l.Service(LoadBalancer, Ranges))...)
	inside, beyond := l.Outside(LB4), l.Outside(LB4)
	beyond.Src = netip.MustParseAddr("203.0.113.99")
	l.Check(Want{"in the range", l.W.Outside(), inside, nettest.Reached, []string{"a1"}, netip.Addr{}},
		Want{"not in the range", l.W.Outside(), beyond, nettest.Dropped, nil, netip.Addr{}})
	port := l.Outside(l.NodePort(0))
	port.Src = beyond.Src
	l.Check(Want{"the NodePort is not guarded", l.W.Outside(), port, nettest.Reached, []string{"a1"}, netip.Addr{}})
}

func affinity(l *Lab) {
	l.Apply(append(l.Slices("a1", "a2", "b1"), l.Service(Keeps))...)
	for _, vip := range []netip.AddrPort{VIP4, VIP6} {
		first := l.Stays(vip, 15)
		rest := slices.DeleteFunc([]string{"a1", "a2", "b1"}, func(p string) bool { return p == first })
		l.Apply(l.Slices(rest...)...)
		second := l.Stays(vip, 15)
		if second == first {
			l.T.Errorf("%s: the client was kept on %s, which is not ready", vip, first)
		}
		l.Apply(l.Slices("a1", "a2", "b1")...)
		if third := l.Stays(vip, 10); third != second {
			l.T.Errorf("%s: the client moved from %s to %s when another endpoint came", vip, second, third)
		}
	}
}

func evenly(l *Lab) {
	l.Apply(append(l.Slices("a1", "a2", "b1"), l.Service())...)
	const n = 600
	count := map[string]int{}
	for range n {
		r := l.Pods["a3"].Connect(l.T.Context(), nettest.Dial{Proto: "udp", Dst: VIP4, Timeout: l.patience()})
		count[r.Who]++
	}
	// Each count is binomial(n, 1/3). Seven standard deviations happen once in 10^11 runs.
	bound := 7 * math.Sqrt(n*(1.0/3)*(2.0/3))
	for _, who := range []string{"a1", "a2", "b1"} {
		if d := math.Abs(float64(count[who]) - n/3.0); d > bound {
			l.T.Errorf("%s was chosen %d times of %d, more than %.0f from a third; all: %v", who, count[who], n, bound, count)
		}
	}
}

func datagrams(l *Lab) {
	l.Apply(append(l.Slices("a1"), l.Service())...)
	other := l.Service(func(s *model.Service) {
		s.Name.Name, s.Type = "other", model.ClusterIP
		s.ClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.8")}
	})
	sl := l.Slices("b1")[0].(*model.EndpointSlice)
	sl.Name.Name, sl.Service.Name = "other-1", "other"
	l.Apply(other, sl)
	vipOther := netip.MustParseAddrPort("10.96.0.8:80")
	if a, b := l.Datagram("a3", 4001, VIP4), l.Datagram("a3", 4002, vipOther); a.Who != "a1" || b.Who != "b1" {
		l.T.Fatalf("before: %q and %q, want a1 and b1", a.Who, b.Who)
	}
	kept := l.tracked(vipOther)
	gone := l.tracked(VIP4)

	l.Restart()
	l.Apply()
	if now := l.tracked(VIP4); now.ID != gone.ID {
		l.T.Error("a restart deleted a valid connection")
	}
	l.Apply(l.Slices("a1", "a2")...)
	if now := l.tracked(VIP4); now.ID != gone.ID {
		l.T.Error("a new endpoint deleted a valid connection")
	}
	l.Apply(l.Slices("a2")...)
	if r := l.Datagram("a3", 4001, VIP4); r.Who != "a2" {
		l.T.Errorf("after its endpoint went, the client reaches %q, want a2 (%v)", r.Who, r.Err)
	}
	if now := l.tracked(vipOther); now.ID != kept.ID {
		l.T.Error("another Service's connection was deleted")
	}
	l.Apply(l.Slices()...)
	if r := l.Datagram("a3", 4001, VIP4); r.Result != nettest.Refused {
		l.T.Errorf("without endpoints the client gets %s by %q, want a refusal", r.Result, r.Who)
	}
	l.Apply(l.Slices("a1")...)
	if r := l.Datagram("a3", 4001, VIP4); r.Who != "a1" {
		l.T.Errorf("with the first endpoint again the client reaches %q, want a1 (%v)", r.Who, r.Err)
	}
}

func associations(l *Lab) {
	dial := func() nettest.Reply {
		return l.Pods["a3"].Connect(l.T.Context(), nettest.Dial{Proto: "sctp", Dst: VIP4,
			Src: netip.MustParseAddr(PodAddrs["a3"][0]), SrcPort: 4011, Timeout: l.patience()})
	}
	l.Apply(append(l.Slices("a1"), l.Service())...)
	if r := dial(); r.Who != "a1" {
		l.T.Fatalf("before: %q, want a1 (%v)", r.Who, r.Err)
	}
	l.Apply(l.Slices("a1", "a2")...)
	if len(l.associations(VIP4)) != 1 {
		l.T.Error("a new endpoint ended a valid association")
	}
	l.Apply(l.Slices("a2")...)
	if es := l.associations(VIP4); len(es) != 0 {
		l.T.Errorf("still tracked, though its endpoint went: %+v", es)
	}
	if r := dial(); r.Who != "a2" {
		l.T.Errorf("after its endpoint went, the client reaches %q, want a2 (%v)", r.Who, r.Err)
	}
}

func early(l *Lab) {
	l.Apply()
	r := l.Datagram("a3", 4003, VIP4) // nobody answers, but the kernel tracks it
	if r.Result == nettest.Reached {
		l.T.Fatalf("an address without Service answered: %+v", r)
	}
	l.Apply(append(l.Slices("a1"), l.Service())...)
	if r := l.Datagram("a3", 4003, VIP4); r.Who != "a1" {
		l.T.Errorf("the client that began too early gets %s by %q, want a1 (%v)", r.Result, r.Who, r.Err)
	}
}

// All are all transports: the kernel of this machine may lack SCTP.
var All = []flow.Proto{flow.TCP, flow.UDP, flow.SCTP}
