package iptables

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// names are the names of one port's chains.
type names struct {
	port  string // namespace/name:port
	proto string

	cluster, local, external, fw string

	ends map[netip.AddrPort]end
}

// end names what one endpoint has: its chain, and the list of senders that stick to it. The list is of the Service and
// the endpoint's address, the same for all ports, so that a client finds one endpoint at all of them.
type end struct{ chain, list string }

func (s *sheet) names(p *proxy.Port) names {
	n := names{port: nameOf(p), proto: string(p.Proto)}
	n.cluster, s.room = hash(clusterChain, s.room, n.port, n.proto)
	id := n.cluster[len(clusterChain):]
	n.local, n.external, n.fw = localChain+id, externalChain+id, firewallChain+id
	return n
}

// nameEnds names what the port's endpoints have.
func (s *sheet) nameEnds(p *proxy.Port, n *names) {
	n.ends = make(map[netip.AddrPort]end, len(p.Cluster)+len(p.Local))
	var room [64]byte
	for _, list := range [][]netip.AddrPort{p.Cluster, p.Local} {
		for _, a := range list {
			if _, done := n.ends[a]; done {
				continue
			}
			var e end
			e.chain, s.room = hash(endpointChain, s.room, n.port, n.proto, string(a.AppendTo(room[:0])))
			if p.Affinity > 0 {
				e.list, s.room = hash(endpointChain, s.room, p.Service.Namespace, "/", p.Service.Name, string(a.Addr().AppendTo(room[:0])))
			}
			n.ends[a] = e
		}
	}
}

// port writes down what one port of a Service wants.
func (s *sheet) port(p *proxy.Port) {
	n := s.names(p)
	s.nameEnds(p, &n)
	internal, here := p.Cluster, n.cluster
	if p.InternalLocal {
		internal, here = p.Local, n.local
	}
	s.internal(p, &n, internal, here)
	s.externals(p, &n)
	if p.Any && len(p.External) > 0 {
		s.externalChain(p, &n)
	}
	s.choice(p, &n, n.cluster, p.Cluster, here)
	s.choice(p, &n, n.local, p.Local, here)
	s.endpoints(p, &n)
}

// internal leads the ClusterIP to its chain, or refuses or drops where that leads nowhere.
func (s *sheet) internal(p *proxy.Port, n *names, to []netip.AddrPort, chain string) {
	vip := p.ClusterIP
	if len(to) > 0 {
		s.pen.start(services).host(vip.Addr()).proto(p.Proto).comment(n.port, " cluster IP").port(p.Proto, vip.Port()).jump(chain)
		s.note(natServices)
		return
	}
	s.pen.start(services).host(vip.Addr()).proto(p.Proto)
	if p.Any {
		s.pen.comment(n.port, " has no local endpoints").port(p.Proto, vip.Port()).jump("DROP")
	} else {
		s.pen.comment(n.port, " has no endpoints").port(p.Proto, vip.Port()).refuse(s.is4)
	}
	s.note(notServed)
}

// externals leads the other addresses to the external chain, and says who may not use them.
func (s *sheet) externals(p *proxy.Port, n *names) {
	toNodePort, guarded := false, 0
	for i := range p.External {
		f := &p.External[i]
		if f.Kind == proxy.NodePort {
			if !toNodePort {
				toNodePort = true
				s.nodePort(p, n, f.Addr.Port())
			}
			if !s.plan.Settings.NodePorts.All {
				s.nothingAt(p, n, f)
			}
			continue
		}
		what := " external IP"
		if f.Kind == proxy.LoadBalancer {
			what = " loadbalancer IP"
		}
		if p.Any {
			to := n.external
			if f.Guarded {
				to = n.fw
			}
			s.pen.start(services).host(f.Addr.Addr()).proto(p.Proto).comment(n.port, what).port(p.Proto, f.Addr.Port()).jump(to)
			s.note(natServices)
		}
		s.nothingAt(p, n, f)
		if f.Guarded {
			guarded++
			s.guard(p, n, f)
		}
	}
	if guarded > 0 {
		s.firewallChain(p, n, guarded)
	}
}

// nodePort leads the node port to the external chain.
func (s *sheet) nodePort(p *proxy.Port, n *names, port uint16) {
	if p.Any {
		s.pen.start(nodePorts).proto(p.Proto).comment(n.port).port(p.Proto, port).jump(n.external)
		s.note(natNodePorts)
	}
	if s.plan.Settings.NodePorts.All && s.leadsNowhere(p) {
		s.pen.start(external).proto(p.Proto).comment(n.port, s.whyNothing(p)).s(" -m addrtype --dst-type LOCAL").port(p.Proto, port)
		s.end(p)
		s.note(notServedPorts)
	}
}

// leadsNowhere reports whether packets that come to an external address and are not translated must not go on.
func (s *sheet) leadsNowhere(p *proxy.Port) bool {
	return !p.Any || p.ExternalLocal && len(p.Local) == 0
}

func (s *sheet) whyNothing(p *proxy.Port) string {
	if p.Any {
		return " has no local endpoints"
	}
	return " has no endpoints"
}

// end ends a rule for an address that leads nowhere: dropped where another node may serve it, refused where nobody does.
func (s *sheet) end(p *proxy.Port) {
	if p.Any {
		s.pen.jump("DROP")
	} else {
		s.pen.refuse(s.is4)
	}
}

// nothingAt refuses or drops what comes to an external address that leads nowhere.
func (s *sheet) nothingAt(p *proxy.Port, n *names, f *proxy.Frontend) {
	if !s.leadsNowhere(p) || f.Guarded && !p.Any {
		return // guarded: the firewall chain does it
	}
	s.pen.start(external).host(f.Addr.Addr()).proto(p.Proto).comment(n.port, s.whyNothing(p)).port(p.Proto, f.Addr.Port())
	s.end(p)
	s.note(notServedFar)
}

// guard lets only the sources in: with endpoints, the others are not translated and dropped; without, they are dropped and
// the sources refused.
func (s *sheet) guard(p *proxy.Port, n *names, f *proxy.Frontend) {
	s.pen.start(firewall).host(f.Addr.Addr()).proto(p.Proto)
	if p.Any {
		s.pen.comment(n.port, " traffic not accepted by ", n.fw).port(p.Proto, f.Addr.Port()).jump("DROP")
	} else {
		s.pen.comment(n.port, " loadbalancer IP").port(p.Proto, f.Addr.Port()).jump(n.fw)
	}
	s.note(notAllowed)
}

// firewallChain says who may send to the guarded addresses of a port.
func (s *sheet) firewallChain(p *proxy.Port, n *names, guarded int) {
	for i := range p.External {
		f := &p.External[i]
		if !f.Guarded {
			continue
		}
		for _, src := range f.Sources {
			s.pen.start(n.fw).from(src)
			if guarded > 1 { // each lets itself in too
				s.pen.host(f.Addr.Addr())
			}
			if p.Any {
				s.pen.comment(n.port, " loadbalancer IP").jump(n.external)
			} else {
				s.pen.comment(n.port, " has no endpoints").refuse(s.is4)
			}
		}
	}
	if !p.Any {
		s.pen.start(n.fw).comment("other traffic to ", n.port).jump("DROP")
		s.chain(kipt.Filter, n.fw)
		return
	}
	s.pen.start(n.fw).comment("other traffic to ", n.port, " will be dropped by KUBE-PROXY-FIREWALL").s("\n")
	s.chain(kipt.NAT, n.fw)
}

// externalChain is what happens to traffic to an external address. Clients in the cluster are not bound by
// externalTrafficPolicy.
func (s *sheet) externalChain(p *proxy.Port, n *names) {
	c := n.external
	if !p.ExternalLocal {
		s.pen.start(c).comment("masquerade traffic for ", n.port, " external destinations").jump(markMasq)
		s.pen.start(c).jump(n.cluster)
		s.chain(kipt.NAT, c)
		return
	}
	for _, pre := range s.pods.in {
		s.pen.start(c).from(pre).comment("pod traffic for ", n.port, " external destinations").jump(n.cluster)
	}
	if s.pods.device != "" {
		s.pen.start(c).s(" -i ").s(s.pods.device).comment("pod traffic for ", n.port, " external destinations").jump(n.cluster)
	}
	s.pen.start(c).comment("masquerade LOCAL traffic for ", n.port, " external destinations").s(" -m addrtype --src-type LOCAL").jump(markMasq)
	s.pen.start(c).comment("route LOCAL traffic for ", n.port, " external destinations").s(" -m addrtype --src-type LOCAL").jump(n.cluster)
	if len(p.Local) > 0 {
		s.pen.start(c).jump(n.local)
	}
	s.chain(kipt.NAT, c)
}

// choice is a chain that chooses among endpoints. One that the ClusterIP leads to first marks what comes from elsewhere.
func (s *sheet) choice(p *proxy.Port, n *names, chain string, to []netip.AddrPort, internal string) {
	if len(to) == 0 {
		return
	}
	if chain == internal {
		s.markForeign(p, n, chain)
	}
	if p.Affinity > 0 {
		age := seconds(int64(p.Affinity.Seconds()))
		for _, e := range to {
			s.toEndpoint(n, chain, e).recent("--rcheck --seconds "+age+" --reap", n.ends[e].list, s.is4).jump(n.ends[e].chain)
		}
	}
	for i, e := range to {
		s.toEndpoint(n, chain, e)
		if rest := len(to) - i; rest > 1 {
			s.pen.chance(rest)
		}
		s.pen.jump(n.ends[e].chain)
	}
	s.chain(kipt.NAT, chain)
}

func (s *sheet) toEndpoint(n *names, chain string, e netip.AddrPort) *pen {
	s.pen.start(chain).s(` -m comment --comment "`).s(n.port).s(" -> ")
	s.pen.b = e.AppendTo(s.pen.b)
	return s.pen.s(`"`)
}

// markForeign marks traffic to the ClusterIP that is to be masqueraded.
func (s *sheet) markForeign(p *proxy.Port, n *names, chain string) {
	all := s.plan.Settings.MasqueradeAll
	if !all && !s.pods.known() {
		return
	}
	if !all && len(s.pods.in) == 1 && s.pods.in[0].Bits() == 0 {
		return // everybody is a Pod of this node
	}
	s.pen.start(chain)
	mark := markMasq
	switch {
	case all:
	case len(s.pods.in) > 1:
		mark = markForeign
	case s.pods.device == "":
		s.pen.not(true).from(s.pods.in[0])
	}
	s.pen.host(p.ClusterIP.Addr())
	if !all && s.pods.device != "" {
		s.pen.not(true).s(" -i ").s(s.pods.device)
	}
	s.pen.proto(p.Proto).comment(n.port, " cluster IP").port(p.Proto, p.ClusterIP.Port()).jump(mark)
}

// endpoints are the chains of single endpoints. One that may be sent its own request, because it is on this node, sees
// the node's address then.
func (s *sheet) endpoints(p *proxy.Port, n *names) {
	for _, list := range [][]netip.AddrPort{p.Cluster, p.Local} {
		for _, e := range list {
			c := n.ends[e].chain
			if _, done := s.chains[kipt.NAT][c]; done {
				continue
			}
			if slices.Contains(p.Hairpin, e.Addr()) {
				s.pen.start(c).from(netip.PrefixFrom(e.Addr(), e.Addr().BitLen())).comment(n.port).jump(markMasq)
			}
			s.pen.start(c).proto(p.Proto).comment(n.port)
			if p.Affinity > 0 {
				s.pen.recent("--set", n.ends[e].list, s.is4)
			}
			s.pen.s(" -m ").s(n.proto).dnat(e)
			s.chain(kipt.NAT, c)
		}
	}
}
