package hoptest

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// HostAddrs are addresses that node-a has on its devices and not in its Node object.
var HostAddrs = []netip.Addr{netip.MustParseAddr("172.17.0.1"), netip.MustParseAddr("fd00:17::1")}

// ServiceFlows returns flows that arrive at NodeA for every address and port that a Service of the snapshot has or nearly
// has, from every kind of client: a Pod here, a Pod elsewhere, each endpoint itself, the node, and two outside.
func ServiceFlows(s *model.Snapshot) []flow.Flow {
	var out []flow.Flow
	for _, dst := range destinations(s) {
		for _, proto := range []flow.Proto{flow.TCP, flow.UDP, flow.SCTP} {
			for _, src := range clients(s, dst.Addr().Is4()) {
				f := src
				f.Node, f.Proto, f.Dst = NodeA, proto, dst
				if n := s.Nodes.At(NodeA); n != nil {
					f.DstLocal = slices.Contains(n.Addrs, dst.Addr()) || slices.Contains(HostAddrs, dst.Addr())
					f.SrcLocal = f.From == flow.FromPod && slices.ContainsFunc(n.PodCIDRs, func(p netip.Prefix) bool { return p.Contains(f.Src.Addr()) })
				}
				out = append(out, f)
			}
		}
	}
	return out
}

func clients(s *model.Snapshot, is4 bool) []flow.Flow {
	at := func(k flow.Kind, who, a string) flow.Flow {
		return flow.Flow{From: k, Sender: who, Src: netip.AddrPortFrom(netip.MustParseAddr(a), 0)}
	}
	out := []flow.Flow{
		at(flow.FromPod, "shop/here", "10.244.1.200"), at(flow.FromPod, "shop/there", "10.244.2.200"),
		at(flow.FromOutside, "", "203.0.113.9"), at(flow.FromOutside, "", "192.0.2.1"),
	}
	if !is4 {
		out = []flow.Flow{
			at(flow.FromPod, "shop/here", "fd00:10:1::200"), at(flow.FromPod, "shop/there", "fd00:10:2::200"),
			at(flow.FromOutside, "", "2001:db8:1::9"), at(flow.FromOutside, "", "2001:db8:9::1"),
		}
	}
	if n := s.Nodes.At(NodeA); n != nil {
		if a := n.Addr(is4); a.IsValid() {
			out = append(out, at(flow.FromNode, NodeA, a.String()))
		}
	}
	seen := map[netip.Addr]bool{}
	for sl := range s.Slices.Values() {
		for _, e := range sl.Endpoints {
			if e.Addr.Is4() == is4 && !seen[e.Addr] && e.Addr.String() != "192.168.1.1" {
				seen[e.Addr] = true
				out = append(out, at(flow.FromPod, "shop/endpoint", e.Addr.String()))
			}
		}
	}
	slices.SortFunc(out, func(a, b flow.Flow) int { return a.Src.Compare(b.Src) })
	return out
}

// destinations are the addresses and ports of the Services, one port beside each, and addresses that nobody has.
func destinations(s *model.Snapshot) []netip.AddrPort {
	var out []netip.AddrPort
	add := func(a netip.Addr, port uint16) { out = append(out, netip.AddrPortFrom(a, port)) }
	add(netip.MustParseAddr("10.96.0.250"), 80)
	add(netip.MustParseAddr("10.244.2.6"), 8080)
	add(netip.MustParseAddr("192.168.1.1"), 30999)
	node := s.Nodes.At(NodeA)
	for svc := range s.Services.Values() {
		addrs := append(slices.Clone(svc.ClusterIPs), svc.ExternalIPs...)
		for _, lb := range svc.LoadBalancerIPs {
			addrs = append(addrs, lb.Addr)
		}
		for _, p := range svc.Ports {
			for _, a := range addrs {
				add(a, p.Port)
				add(a, p.Port+1)
			}
			if node != nil && p.NodePort != 0 {
				for _, a := range slices.Concat(node.Addrs, HostAddrs) {
					add(a, p.NodePort)
				}
			}
		}
	}
	slices.SortFunc(out, netip.AddrPort.Compare)
	return slices.Compact(out)
}
