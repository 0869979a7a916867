package hoptest

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/model"
)

// exposed gives a Service a NodePort, a load balancer address and an external address.
func exposed(s *model.Service) {
	s.Type = model.LoadBalancer
	s.Ports[0].NodePort = 30000 + uint16(s.ClusterIPs[0].As4()[3])
	s.LoadBalancerIPs = []model.LoadBalancerIP{{Addr: netip.AddrFrom4([4]byte{198, 51, 100, s.ClusterIPs[0].As4()[3]})}}
	s.ExternalIPs = []netip.Addr{netip.AddrFrom4([4]byte{198, 51, 101, s.ClusterIPs[0].As4()[3]})}
}

func externalLocal(s *model.Service) { s.ExternalPolicyLocal = true }
func internalLocal(s *model.Service) { s.InternalPolicyLocal = true }
func clientIP(s *model.Service)      { s.AffinityTimeout = 3 * time.Hour }

func protocol(p model.Protocol) func(*model.Service) {
	return func(s *model.Service) { s.Ports[0].Protocol = p }
}

func ranges(ps ...string) func(*model.Service) {
	return func(s *model.Service) {
		for _, p := range ps {
			s.SourceRanges = append(s.SourceRanges, netip.MustParsePrefix(p))
		}
	}
}

// both are endpoints on both nodes, three in all.
func both() []model.Endpoint {
	return []model.Endpoint{Ready("10.244.1.5"), Ready("10.244.2.6"), Ready("10.244.2.7")}
}

// far are endpoints on the other node only.
func far() []model.Endpoint { return []model.Endpoint{Ready("10.244.2.6"), Ready("10.244.2.7")} }

// ServiceCases are the clusters that every service proxy must handle, each with the flows of ServiceFlows.
func ServiceCases() []Case {
	var out []Case
	add := func(name string, objs ...any) {
		s := NewCluster().Put(objs...).Snapshot()
		out = append(out, Case{Name: name, Snapshot: s, Flows: ServiceFlows(s)})
	}
	out = append(out, Case{Name: "an empty cluster", Snapshot: &model.Snapshot{}})
	add("two nodes and no Service")
	basic(add)
	policies(add)
	choices(add)
	oddities(add)
	return append(out, elsewhere()...)
}

// byAddress asks for a choice by the client's address.
func byAddress(s *model.Service) { s.Annotations = map[string]string{"podway.io/balance": "maglev"} }

// MaglevCases are more clusters, for backends that can choose by the client's address.
func MaglevCases() []Case {
	var out []Case
	add := func(name string, objs ...any) {
		s := NewCluster().Put(objs...).Snapshot()
		out = append(out, Case{Name: name, Snapshot: s, Flows: ServiceFlows(s)})
	}
	six := Slice("cart", Ready("fd00:10:1::5"), Ready("fd00:10:2::6"))
	six.Name.Name, six.AddressType = "cart-6", "IPv6"
	dual := func(s *model.Service) { s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr("fd00:96::7")) }
	add("by the client's address", Service("cart", 7, exposed, byAddress, dual), Slice("cart", both()...), six)
	add("by the client's address, one endpoint less", Service("cart", 7, exposed, byAddress, dual), Slice("cart", far()...), six)
	add("by the client's address, sticky, external Local", Service("cart", 7, exposed, byAddress, clientIP, externalLocal), Slice("cart", both()...))
	return out
}

type adder func(name string, objs ...any)

func basic(add adder) {
	add("one endpoint", Service("cart", 7), Slice("cart", Ready("10.244.1.5")))
	add("three endpoints", Service("cart", 7), Slice("cart", both()...))
	add("one endpoint less, in the middle", Service("cart", 7), Slice("cart", Ready("10.244.1.5"), Ready("10.244.2.7")))
	add("no slice", Service("cart", 7))
	add("no ready endpoint", Service("cart", 7), Slice("cart", Unready("10.244.1.5")))
	add("exposed", Service("cart", 7, exposed), Slice("cart", both()...))
	add("exposed without endpoints", Service("cart", 7, exposed))
	add("UDP", udp("dns", 10, exposed)...)
	add("SCTP", Service("sip", 11, protocol(model.SCTP), exposed), withProto(Slice("sip", both()...), model.SCTP))
	many := []any{}
	for i := range 40 {
		name := fmt.Sprintf("s%d", i)
		many = append(many, Service(name, byte(20+i)), Slice(name, both()[:i%4%3+1]...))
	}
	add("forty Services", many...)
}

// udp is a Service that answers on the same port with both protocols, as DNS does.
func udp(name string, n byte, edit ...func(*model.Service)) []any {
	s := Service(name, n, edit...)
	s.Ports = append(s.Ports, model.ServicePort{Name: "udp", Protocol: model.UDP, Port: 80, NodePort: s.Ports[0].NodePort})
	sl := Slice(name, both()...)
	sl.Ports = append(sl.Ports, model.EndpointPort{Name: "udp", Protocol: model.UDP, Port: 5353})
	return []any{s, sl}
}

func withProto(s *model.EndpointSlice, p model.Protocol) *model.EndpointSlice {
	s.Ports[0].Protocol = p
	return s
}

func policies(add adder) {
	add("external Local with an endpoint here", Service("cart", 7, exposed, externalLocal), Slice("cart", both()...))
	add("external Local with endpoints elsewhere", Service("cart", 7, exposed, externalLocal), Slice("cart", far()...))
	add("external Local without endpoints", Service("cart", 7, exposed, externalLocal))
	add("internal Local with an endpoint here", Service("cart", 7, internalLocal), Slice("cart", both()...))
	add("internal Local with endpoints elsewhere", Service("cart", 7, internalLocal), Slice("cart", far()...))
	add("internal Local without endpoints", Service("cart", 7, internalLocal))
	add("both Local, exposed", Service("cart", 7, exposed, internalLocal, externalLocal), Slice("cart", both()...))
	add("internal Local, exposed, endpoints elsewhere", Service("cart", 7, exposed, internalLocal), Slice("cart", far()...))
	add("source ranges", Service("cart", 7, exposed, ranges("203.0.113.0/25", "203.0.113.0/24", "192.168.1.0/24")), Slice("cart", both()...))
	add("source ranges of one address", Service("cart", 7, exposed, ranges("203.0.113.9/32")), Slice("cart", both()...))
	add("source ranges, external Local elsewhere", Service("cart", 7, exposed, externalLocal, ranges("203.0.113.9/32")), Slice("cart", far()...))
	add("source ranges without endpoints", Service("cart", 7, exposed, ranges("0.0.0.0/0")))
	add("affinity", Service("cart", 7, exposed, clientIP), Slice("cart", both()...))
	add("affinity, both Local", Service("cart", 7, exposed, clientIP, internalLocal, externalLocal), Slice("cart", both()...))
	add("affinity and another without", Service("cart", 7, clientIP), Slice("cart", both()...), Service("web", 8), Slice("web", both()...))
}

func choices(add adder) {
	add("draining here, ready elsewhere", Service("cart", 7, exposed, externalLocal), Slice("cart", Draining("10.244.1.5"), Ready("10.244.2.6")))
	add("draining everywhere", Service("cart", 7, exposed, internalLocal), Slice("cart", Draining("10.244.1.5"), Draining("10.244.2.6")))
	add("draining elsewhere only", Service("cart", 7, internalLocal), Slice("cart", Draining("10.244.2.6"), Unready("10.244.1.5")))
	hinted := func(node, zone bool, eps ...model.Endpoint) []model.Endpoint {
		for i := range eps {
			if node {
				eps[i] = HintNodes(eps[i], eps[i].Node)
			}
			if zone {
				eps[i] = HintZones(eps[i], eps[i].Zone)
			}
		}
		return eps
	}
	add("hints for this node", Service("cart", 7, exposed), Slice("cart", hinted(true, false, both()...)...))
	add("hints for other nodes only", Service("cart", 7), Slice("cart", hinted(true, false, far()...)...))
	add("hints for this zone", Service("cart", 7), Slice("cart", hinted(false, true, both()...)...))
	add("node hints that fail and zone hints that hold", Service("cart", 7), Slice("cart",
		HintZones(Ready("10.244.1.5"), ZoneA), HintZones(HintNodes(Ready("10.244.2.6"), NodeB), ZoneB)))
	add("one ready endpoint without hint", Service("cart", 7), Slice("cart", HintNodes(Ready("10.244.1.5"), NodeA), Ready("10.244.2.6")))
	add("hints and a draining endpoint", Service("cart", 7), Slice("cart", HintNodes(Draining("10.244.1.5"), NodeA), HintNodes(Ready("10.244.2.6"), NodeB)))
}

func oddities(add adder) {
	second := Slice("cart", Ready("10.244.1.5"), Unready("10.244.2.6"))
	second.Name.Name = "cart-2"
	add("one endpoint in two slices", Service("cart", 7), Slice("cart", both()...), second)
	twoPorts := Service("cart", 7, func(s *model.Service) {
		s.Ports = append(s.Ports, model.ServicePort{Name: "metrics", Protocol: model.TCP, Port: 9090})
	})
	host := func(name string, port uint16) *model.EndpointSlice {
		sl := Slice("cart", Ready("192.168.1.1"))
		sl.Name.Name = "cart-" + name
		sl.Ports = []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: port}, {Name: "metrics", Protocol: model.TCP, Port: port + 1}, {Name: "other", Protocol: model.TCP, Port: 1}}
		return sl
	}
	twoSticky := *twoPorts
	twoSticky.AffinityTimeout = time.Hour
	twoPods := Slice("cart", both()...)
	twoPods.Ports = append(twoPods.Ports, model.EndpointPort{Name: "metrics", Protocol: model.TCP, Port: 9090})
	add("two ports, sticky", &twoSticky, twoPods)
	add("two ports, sticky, no endpoint in common", &twoSticky, Slice("cart", both()[:1]...), onlyMetrics(far()...))
	add("endpoints of the host network with one address and two ports, sticky", &twoSticky, host("a", 8080), host("b", 9000))
	add("endpoints of the host network with one address and two ports", twoPorts, host("a", 8080), host("b", 9000))
	add("two Services with one external address", Service("cart", 7, exposed), Slice("cart", both()...),
		Service("web", 8, func(s *model.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.101.7")} }), Slice("web", far()...))
	add("the other one alone", Service("web", 8, func(s *model.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.101.7")} }), Slice("web", far()...))
	add("another proxy's Service", Service("cart", 7, func(s *model.Service) { s.ProxyName = "mesh" }), Slice("cart", both()...))
	add("headless", Service("cart", 7, func(s *model.Service) { s.Headless, s.ClusterIPs = true, nil }), Slice("cart", both()...))
	add("a load balancer address in proxy mode", Service("cart", 7, exposed, func(s *model.Service) { s.LoadBalancerIPs[0].Proxy = true }), Slice("cart", both()...))
	add("another Service took the address", Service("web", 7), Slice("web", far()...))
	six := Slice("cart", Ready("fd00:10:1::5"), Ready("fd00:10:2::6"))
	six.Name.Name, six.AddressType = "cart-6", "IPv6"
	dual := func(s *model.Service) {
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr("fd00:96::7"))
		s.ExternalIPs = append(s.ExternalIPs, netip.MustParseAddr("2001:db8::7"))
	}
	add("dual stack", Service("cart", 7, exposed, dual), Slice("cart", both()...), six)
	add("dual stack, sticky, Local, guarded", Service("cart", 7, exposed, dual, clientIP, externalLocal, ranges("203.0.113.0/24", "2001:db8:1::/64"), func(s *model.Service) {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, model.LoadBalancerIP{Addr: netip.MustParseAddr("2001:db8:2::7")})
	}), Slice("cart", both()...), six)
	add("guarded in one family only", Service("cart", 7, exposed, dual, ranges("203.0.113.0/24"), func(s *model.Service) {
		s.LoadBalancerIPs = append(s.LoadBalancerIPs, model.LoadBalancerIP{Addr: netip.MustParseAddr("2001:db8:2::7")})
	}), Slice("cart", both()...), six)
}

// onlyMetrics is a second slice of shop/cart with the port metrics alone.
func onlyMetrics(eps ...model.Endpoint) *model.EndpointSlice {
	sl := Slice("cart", eps...)
	sl.Name.Name = "cart-metrics"
	sl.Ports = []model.EndpointPort{{Name: "metrics", Protocol: model.TCP, Port: 9090}}
	return sl
}

// elsewhere are clusters that say something else of the node itself.
func elsewhere() []Case {
	edit := func(name string, f func(*model.Node)) Case {
		n := Node(NodeA, ZoneA, 1)
		f(n)
		s := NewCluster().Put(n, Service("cart", 7, exposed, externalLocal), Slice("cart", both()...),
			Service("web", 8, exposed), Slice("web", far()...)).Snapshot()
		return Case{Name: name, Snapshot: s, Flows: ServiceFlows(s)}
	}
	return []Case{
		edit("a node without Pod ranges", func(n *model.Node) { n.PodCIDRs = nil }),
		edit("a node with two Pod ranges", func(n *model.Node) { n.PodCIDRs = append(n.PodCIDRs, netip.MustParsePrefix("10.245.0.0/16")) }),
		edit("a node with another address", func(n *model.Node) { n.Addrs = []netip.Addr{netip.MustParseAddr("192.168.1.99")} }),
		edit("a node without addresses", func(n *model.Node) { n.Addrs = nil }),
	}
}
