package nft

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// lab is a real network: node-a with the proxy under test, node-b without, Pods on both, and clients outside.
type lab struct {
	t            *testing.T
	w            *nettest.World
	a, b         *nettest.Host
	pods         map[string]*nettest.Host
	proxy        *proxy.Proxy
	builder      *model.Builder
	have         *model.Snapshot
	connections  *conntrack.Conn
	viaA4, viaA6 int
}

var podAddrs = map[string][2]string{ // name -> IPv4, IPv6; the node follows from the third number
	"a1": {"10.244.1.1", "fd00:10:1::1"}, "a2": {"10.244.1.2", "fd00:10:1::2"}, "a3": {"10.244.1.3", "fd00:10:1::3"},
	"b1": {"10.244.2.1", "fd00:10:2::1"},
}

func newLab(t *testing.T) *lab {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.NFT)
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	l := &lab{t: t, w: w, pods: map[string]*nettest.Host{}, builder: model.NewBuilder(nil)}
	l.a, l.b = l.node("node-a", 1), l.node("node-b", 2)
	for name, addrs := range podAddrs {
		node := l.a
		if name[0] == 'b' {
			node = l.b
		}
		pod, err := w.AddPod(node, name, netip.MustParseAddr(addrs[0]), netip.MustParseAddr(addrs[1]))
		l.ok(err)
		_, err = pod.Serve(name, nettest.Port{Proto: "tcp", Number: 8080}, nettest.Port{Proto: "udp", Number: 8080})
		l.ok(err)
		l.pods[name] = pod
	}
	for i, other := range []*nettest.Host{l.b, l.a} {
		here := []*nettest.Host{l.a, l.b}[i]
		l.ok(here.Route(netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", 2-i)), other.Addrs[0]))
		l.ok(here.Route(netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/64", 2-i)), other.Addrs[1]))
	}
	l.ok(w.Outside().Do(func() error { // clients of a whole network, not of single addresses
		return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0)
	}))
	l.viaA4, err = w.Outside().Via(l.a.Addrs[0])
	l.ok(err)
	l.viaA6, err = w.Outside().Via(l.a.Addrs[1])
	l.ok(err)
	l.connections, err = conntrack.Open(l.a.NS())
	l.ok(err)
	t.Cleanup(func() { l.connections.Close() })
	l.restart()
	return l
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) node(name string, n int) *nettest.Host {
	h, err := l.w.AddNode(name, 0)
	l.ok(err)
	l.builder.Put(&model.Node{Name: name, Ready: true, Addrs: h.Addrs, PodCIDRs: []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n)), netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/64", n))}})
	return h
}

// restart starts the proxy as a new process that knows nothing.
func (l *lab) restart() {
	l.proxy = proxy.New(proxy.Options{Node: "node-a", Backend: In(l.a.NS()), Connections: l.connections})
	l.have = nil
}

// apply changes the cluster and applies it.
func (l *lab) apply(objs ...any) {
	l.t.Helper()
	for _, o := range objs {
		l.builder.Put(o)
	}
	s := l.builder.Snapshot(time.Now())
	_, err := l.proxy.Apply(l.t.Context(), s, model.Diff(l.have, s))
	l.ok(err)
	l.have = s
}

var (
	vip4, vip6 = netip.MustParseAddrPort("10.96.0.7:80"), netip.MustParseAddrPort("[fd00:96::7]:80")
	client4    = netip.MustParseAddr("203.0.113.9")
	client6    = netip.MustParseAddr("fd00:203::9")
)

const nodePort = 30080

// service is shop/web, TCP and UDP port 80, with a NodePort.
func service(edit ...func(*model.Service)) *model.Service {
	s := &model.Service{Name: model.N("shop", "web"), Type: model.NodePort, ClusterIPs: []netip.Addr{vip4.Addr(), vip6.Addr()},
		Ports: []model.ServicePort{{Name: "tcp", Protocol: model.TCP, Port: 80, NodePort: nodePort}, {Name: "udp", Protocol: model.UDP, Port: 80, NodePort: nodePort}}}
	for _, f := range edit {
		f(s)
	}
	return s
}

func loadBalancer(s *model.Service) {
	s.Type = model.LoadBalancer
	s.LoadBalancerIPs = []model.LoadBalancerIP{{Addr: netip.MustParseAddr("198.51.100.7")}}
}
func local(s *model.Service) { s.ExternalPolicyLocal = true }
func keeps(s *model.Service) { s.AffinityTimeout = time.Minute }
func ranges(s *model.Service) {
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")}
}

// slices46 are the slices of both families with the Pods as endpoints.
func slices46(pods ...string) []any {
	var out []any
	for i, typ := range []string{"IPv4", "IPv6"} {
		s := &model.EndpointSlice{Name: model.N("shop", "web-"+typ), Service: model.N("shop", "web"), AddressType: typ,
			Ports: []model.EndpointPort{{Name: "tcp", Protocol: model.TCP, Port: 8080}, {Name: "udp", Protocol: model.UDP, Port: 8080}}}
		for _, p := range pods {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Addr: netip.MustParseAddr(podAddrs[p][i]), Ready: true, Serving: true, Node: "node-" + p[:1]})
		}
		out = append(out, s)
	}
	return out
}

// want is one connection and what must become of it.
type want struct {
	name   string
	from   *nettest.Host
	dial   nettest.Dial
	result nettest.Result
	who    []string   // any of these answers
	saw    netip.Addr // the source address that the endpoint sees, when it matters
}

func (l *lab) check(ws ...want) {
	l.t.Helper()
	for _, w := range ws {
		for _, proto := range []string{"tcp", "udp"} {
			w.dial.Proto = proto
			if w.result == nettest.Dropped {
				w.dial.Timeout = 200 * time.Millisecond
			} else {
				w.dial.Timeout = 5 * time.Second // a busy machine is not a broken one
			}
			r := w.from.Connect(l.t.Context(), w.dial)
			if w.from == l.a && proto == "udp" && w.result == nettest.Refused && errors.Is(r.Err, syscall.EPERM) {
				continue // the kernel tells the sender at once that its datagram was dropped; "refused" comes with the next
			}
			if r.Result != w.result || len(w.who) > 0 && !slices.Contains(w.who, r.Who) || w.saw.IsValid() && r.Saw.Addr() != w.saw {
				l.t.Errorf("%s, %s: got %s by %q who saw %s (%v); want %s by %v who sees %s", w.name, proto, r.Result, r.Who, r.Saw, r.Err, w.result, w.who, w.saw)
			}
		}
	}
}

// outside is a connection from the client behind the outside host that enters at node-a.
func (l *lab) outside(dst netip.AddrPort) nettest.Dial {
	if dst.Addr().Is4() {
		return nettest.Dial{Dst: dst, Src: client4, Mark: l.viaA4}
	}
	return nettest.Dial{Dst: dst, Src: client6, Mark: l.viaA6}
}

func (l *lab) nodePort(i int) netip.AddrPort { return netip.AddrPortFrom(l.a.Addrs[i], nodePort) }

func TestPacketsReachEndpointsAndAreSeenFromTheRightAddress(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "b1"), service())...)
	eps := []string{"a1", "b1"}
	for i, vip := range []netip.AddrPort{vip4, vip6} {
		l.check(
			want{"Pod to ClusterIP", l.pods["a3"], nettest.Dial{Dst: vip}, nettest.Reached, eps, netip.MustParseAddr(podAddrs["a3"][i])},
			want{"node to ClusterIP", l.a, nettest.Dial{Dst: vip}, nettest.Reached, eps, netip.Addr{}},
			want{"outside to ClusterIP", l.w.Outside(), l.outside(vip), nettest.Reached, eps, netip.Addr{}},
			want{"outside to NodePort", l.w.Outside(), l.outside(l.nodePort(i)), nettest.Reached, eps, netip.Addr{}},
			want{"Pod to NodePort", l.pods["a3"], nettest.Dial{Dst: l.nodePort(i)}, nettest.Reached, eps, netip.Addr{}},
			want{"node to its own NodePort", l.a, nettest.Dial{Dst: l.nodePort(i)}, nettest.Reached, eps, netip.Addr{}},
		)
	}
	l.apply(slices46("b1")...)
	for i, vip := range []netip.AddrPort{vip4, vip6} {
		l.check(
			want{"NodePort to another node's Pod", l.w.Outside(), l.outside(l.nodePort(i)), nettest.Reached, []string{"b1"}, l.a.Addrs[i]},
			want{"outside to ClusterIP, another node's Pod", l.w.Outside(), l.outside(vip), nettest.Reached, []string{"b1"}, l.a.Addrs[i]},
		)
	}
}

func TestTrafficPolicyLocalKeepsTheClientAddressOrDrops(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "b1"), service(local))...)
	for i, client := range []netip.Addr{client4, client6} {
		l.check(want{"outside", l.w.Outside(), l.outside(l.nodePort(i)), nettest.Reached, []string{"a1"}, client},
			want{"Pod", l.pods["a3"], nettest.Dial{Dst: l.nodePort(i)}, nettest.Reached, []string{"a1", "b1"}, netip.MustParseAddr(podAddrs["a3"][i])})
	}
	l.apply(slices46("b1")...)
	for i := range 2 {
		l.check(want{"outside without a local endpoint", l.w.Outside(), l.outside(l.nodePort(i)), nettest.Dropped, nil, netip.Addr{}},
			want{"Pod without a local endpoint", l.pods["a3"], nettest.Dial{Dst: l.nodePort(i)}, nettest.Reached, []string{"b1"}, netip.Addr{}},
			want{"node without a local endpoint", l.a, nettest.Dial{Dst: l.nodePort(i)}, nettest.Reached, []string{"b1"}, netip.Addr{}})
	}
}

func TestNothingThereIsRefusedAtOnce(t *testing.T) {
	l := newLab(t)
	l.apply(service())
	for i, vip := range []netip.AddrPort{vip4, vip6} {
		l.check(
			want{"Pod to ClusterIP", l.pods["a3"], nettest.Dial{Dst: vip}, nettest.Refused, nil, netip.Addr{}},
			want{"node to ClusterIP", l.a, nettest.Dial{Dst: vip}, nettest.Refused, nil, netip.Addr{}},
			want{"outside to NodePort", l.w.Outside(), l.outside(l.nodePort(i)), nettest.Refused, nil, netip.Addr{}},
		)
	}
	l.apply(slices46("a1")...)
	for _, vip := range []netip.AddrPort{vip4, vip6} {
		other := netip.AddrPortFrom(vip.Addr(), 22)
		l.check(
			want{"a port that is not the Service's, from a Pod", l.pods["a3"], nettest.Dial{Dst: other}, nettest.Refused, nil, netip.Addr{}},
			want{"a port that is not the Service's, from the node", l.a, nettest.Dial{Dst: other}, nettest.Refused, nil, netip.Addr{}},
			want{"and its own port works now", l.pods["a3"], nettest.Dial{Dst: vip}, nettest.Reached, []string{"a1"}, netip.Addr{}},
		)
	}
}

func TestAPodReachesItselfThroughItsService(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1"), service())...)
	for i, vip := range []netip.AddrPort{vip4, vip6} {
		l.check(want{"hairpin", l.pods["a1"], nettest.Dial{Dst: vip}, nettest.Reached, []string{"a1"}, netip.Addr{}})
		r := l.pods["a1"].Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: vip, Timeout: 5 * time.Second})
		if own := netip.MustParseAddr(podAddrs["a1"][i]); r.Saw.Addr() == own || !r.Saw.IsValid() {
			t.Errorf("the Pod sees its own request from %s, want the node", r.Saw)
		}
	}
}

func TestLoadBalancerSourceRangesLetOnlyTheirClientsIn(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1"), service(loadBalancer, ranges))...)
	lb := netip.MustParseAddrPort("198.51.100.7:80")
	inside, beyond := l.outside(lb), l.outside(lb)
	beyond.Src = netip.MustParseAddr("203.0.113.99")
	l.check(want{"in the range", l.w.Outside(), inside, nettest.Reached, []string{"a1"}, netip.Addr{}},
		want{"not in the range", l.w.Outside(), beyond, nettest.Dropped, nil, netip.Addr{}})
	port := l.outside(l.nodePort(0))
	port.Src = beyond.Src
	l.check(want{"the NodePort is not guarded", l.w.Outside(), port, nettest.Reached, []string{"a1"}, netip.Addr{}})
}

func TestAClientKeepsItsEndpointUntilItIsNotReady(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "a2", "b1"), service(keeps))...)
	for _, vip := range []netip.AddrPort{vip4, vip6} {
		first := l.stays(vip, 15)
		var rest []string
		for _, p := range []string{"a1", "a2", "b1"} {
			if p != first {
				rest = append(rest, p)
			}
		}
		l.apply(slices46(rest...)...)
		second := l.stays(vip, 15)
		if second == first {
			t.Errorf("%s: the client was kept on %s, which is not ready", vip, first)
		}
		l.apply(slices46("a1", "a2", "b1")...)
		if third := l.stays(vip, 10); third != second {
			t.Errorf("%s: the client moved from %s to %s when another endpoint came", vip, second, third)
		}
	}
}

// stays connects n times and returns the only one who answers.
func (l *lab) stays(dst netip.AddrPort, n int) string {
	l.t.Helper()
	first := ""
	for range n {
		r := l.pods["a3"].Connect(l.t.Context(), nettest.Dial{Proto: "tcp", Dst: dst, Timeout: 5 * time.Second})
		if first == "" {
			first = r.Who
		}
		if r.Who == "" || r.Who != first {
			l.t.Fatalf("%s: got %q (%v) after %q", dst, r.Who, r.Err, first)
		}
	}
	return first
}

func TestEndpointsAreChosenEvenly(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1", "a2", "b1"), service())...)
	const n = 600
	count := map[string]int{}
	for range n {
		r := l.pods["a3"].Connect(t.Context(), nettest.Dial{Proto: "udp", Dst: vip4, Timeout: 5 * time.Second})
		count[r.Who]++
	}
	// Each count is binomial(n, 1/3). Seven standard deviations happen once in 10^11 runs.
	bound := 7 * math.Sqrt(n*(1.0/3)*(2.0/3))
	for _, who := range []string{"a1", "a2", "b1"} {
		if d := math.Abs(float64(count[who]) - n/3.0); d > bound {
			t.Errorf("%s was chosen %d times of %d, more than %.0f from a third; all: %v", who, count[who], n, bound, count)
		}
	}
}

// udp sends from a fixed port, so that the kernel sees one connection over all calls.
func (l *lab) udp(from string, port uint16, dst netip.AddrPort) nettest.Reply {
	return l.pods[from].Connect(l.t.Context(), nettest.Dial{Proto: "udp", Dst: dst, Src: netip.MustParseAddr(podAddrs[from][0]), SrcPort: port, Timeout: 5 * time.Second})
}

func TestUDPClientsMoveWhenTheirEndpointGoesAndOnlyThey(t *testing.T) {
	l := newLab(t)
	l.apply(append(slices46("a1"), service())...)
	other := service(func(s *model.Service) {
		s.Name.Name, s.Type = "other", model.ClusterIP
		s.ClusterIPs = []netip.Addr{netip.MustParseAddr("10.96.0.8")}
	})
	sl := slices46("b1")[0].(*model.EndpointSlice)
	sl.Name.Name, sl.Service.Name = "other-1", "other"
	l.apply(other, sl)
	vipOther := netip.MustParseAddrPort("10.96.0.8:80")
	if a, b := l.udp("a3", 4001, vip4), l.udp("a3", 4002, vipOther); a.Who != "a1" || b.Who != "b1" {
		t.Fatalf("before: %q and %q, want a1 and b1", a.Who, b.Who)
	}
	kept := l.entry(vipOther)
	gone := l.entry(vip4)

	l.restart()
	l.apply()
	if now := l.entry(vip4); now.ID != gone.ID {
		t.Error("a restart deleted a valid connection")
	}
	l.apply(slices46("a1", "a2")...)
	if now := l.entry(vip4); now.ID != gone.ID {
		t.Error("a new endpoint deleted a valid connection")
	}
	l.apply(slices46("a2")...)
	if r := l.udp("a3", 4001, vip4); r.Who != "a2" {
		t.Errorf("after its endpoint went, the client reaches %q, want a2 (%v)", r.Who, r.Err)
	}
	if now := l.entry(vipOther); now.ID != kept.ID {
		t.Error("another Service's connection was deleted")
	}
	l.apply(slices46()...)
	if r := l.udp("a3", 4001, vip4); r.Result != nettest.Refused {
		t.Errorf("without endpoints the client gets %s by %q, want a refusal", r.Result, r.Who)
	}
	l.apply(slices46("a1")...)
	if r := l.udp("a3", 4001, vip4); r.Who != "a1" {
		t.Errorf("with the first endpoint again the client reaches %q, want a1 (%v)", r.Who, r.Err)
	}
}

// entry returns the tracked UDP connection to an address.
func (l *lab) entry(dst netip.AddrPort) conntrack.Entry {
	l.t.Helper()
	es, err := l.connections.List(l.t.Context(), conntrack.UDP)
	l.ok(err)
	for _, e := range es {
		if e.Dst == dst {
			return e
		}
	}
	l.t.Fatalf("no UDP connection to %s is tracked", dst)
	return conntrack.Entry{}
}

func TestUDPThatBeganBeforeTheServiceIsNotLost(t *testing.T) {
	l := newLab(t)
	l.apply()
	r := l.udp("a3", 4003, vip4) // nobody answers, but the kernel tracks it
	if r.Result == nettest.Reached {
		t.Fatalf("an address without Service answered: %+v", r)
	}
	l.apply(append(slices46("a1"), service())...)
	if r := l.udp("a3", 4003, vip4); r.Who != "a1" {
		t.Errorf("the client that began too early gets %s by %q, want a1 (%v)", r.Result, r.Who, r.Err)
	}
}
