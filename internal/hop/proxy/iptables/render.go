package iptables

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// Render implements proxy.Backend.
func (b *Backend) Render(p *proxy.Plan) proxy.Ruleset { return Render(p) }

// Render returns the tables that a plan wants: those of IPv4, and of IPv6 if the node or a Service has an address of it.
func Render(p *proxy.Plan) *Ruleset {
	r := &Ruleset{node: p.Node}
	for _, f := range kipt.Families {
		r.tables = append(r.tables, render(p, f, collect(p, f))...)
	}
	return r
}

// wanted reports whether a family has chains at all.
func wanted(p *proxy.Plan, f kipt.Family, ports int) bool {
	if f == kipt.IPv4 || ports > 0 || len(p.LocalPods(false).In) > 0 {
		return true
	}
	return slices.ContainsFunc(p.Node.Addrs, netip.Addr.Is6)
}

// render makes one family's tables, or none.
func render(p *proxy.Plan, f kipt.Family, s *sheet) []*kipt.Table {
	if !wanted(p, f, s.ports) {
		return nil
	}
	var out []*kipt.Table
	for _, name := range tables {
		t := &kipt.Table{Family: f, Name: name, Chains: s.chains[name]}
		for chain, rules := range builtin(name, s.jumps()...) {
			t.Chains[chain] = rules
		}
		for chain, rules := range s.static(name) {
			t.Chains[chain] = s.listed(list{name, chain}) + rules
		}
		out = append(out, t)
	}
	return out
}

// listed are the rules of Services in a chain, in the order of their letters: what is wanted must not depend on what was
// there before.
func (s *sheet) listed(l list) string {
	return inOrder(s.lists[l]) + inOrder(s.lists[list{l.table, l.chain + late}])
}

func inOrder(rules []string) string {
	slices.Sort(rules)
	return strings.Join(rules, "")
}

func (s *sheet) jumps() [][]jump {
	if s.loopback() {
		return [][]jump{jumps, localnetJumps}
	}
	return [][]jump{jumps}
}

// loopback reports whether node ports answer at the host's own 127.0.0.1. At ::1 they cannot: the kernel lets no packet
// from there leave by another device than lo.
func (s *sheet) loopback() bool { return s.is4 && s.plan.Settings.NodePorts.Loopback }

// static are the chains that are always there, with the rules that follow those of Services.
func (s *sheet) static(table string) map[string]string {
	if table == kipt.NAT {
		out := map[string]string{services: s.toNodePorts(), nodePorts: "", markMasq: s.setMark(), postrouting: s.masquerade(), canary: ""}
		if rules := s.pods.foreign(&s.pen); rules != "" {
			out[markForeign] = rules
		}
		return out
	}
	out := map[string]string{services: s.strays(), external: "", forward: s.letPass(), nodePorts: "", firewall: "", clusterIPs: "", canary: ""}
	if s.loopback() {
		out[localnet] = s.guardLoopback()
	}
	return out
}

func (s *sheet) mark() *pen {
	m := s.plan.Settings.Mark()
	return s.pen.mark(m).s("/").mark(m)
}

func (s *sheet) setMark() string {
	s.pen.start(markMasq).s(" -j MARK --set-xmark ")
	s.mark().s("\n")
	return s.pen.take()
}

// masquerade hides what is marked behind the node's address. The mark is taken off, so that a packet that passes the host
// again, in a tunnel, is not hidden twice.
func (s *sheet) masquerade() string {
	s.pen.start(postrouting).s(" -m mark ! --mark ")
	s.mark().jump("RETURN")
	s.pen.start(postrouting).s(" -j MARK --set-xmark ").mark(s.plan.Settings.Mark()).s("/0x0\n")
	s.pen.start(postrouting).comment("kubernetes service traffic requiring SNAT").jump("MASQUERADE --random-fully")
	return s.pen.take()
}

const lastRule = "kubernetes service nodeports; NOTE: this must be the last rule in this chain"

// toNodePorts lead what comes to the node's addresses to the node ports.
func (s *sheet) toNodePorts() string {
	if s.plan.Settings.NodePorts.All {
		s.pen.start(services)
		if !s.loopback() {
			s.pen.not(true).to(loopbackRange(s.is4))
		}
		s.pen.comment(lastRule).s(" -m addrtype --dst-type LOCAL").jump(nodePorts)
		return s.pen.take()
	}
	for _, a := range s.plan.Node.Addrs {
		if a.Is4() == s.is4 && (s.is4 || !a.IsLoopback()) {
			s.pen.start(services).host(a).comment(lastRule).jump(nodePorts)
		}
	}
	return s.pen.take()
}

func loopbackRange(is4 bool) netip.Prefix {
	if is4 {
		return netip.PrefixFrom(netip.AddrFrom4([4]byte{127}), 8)
	}
	return netip.PrefixFrom(netip.IPv6Loopback(), 128)
}

// strays are the last rules for what no Service served: other ports of a ClusterIP are refused, addresses in the ranges
// of ClusterIPs that no Service has are dropped.
func (s *sheet) strays() string {
	for _, b := range s.sorted() {
		s.pen.start(services).to(b).comment("kubernetes service portals").jump(clusterIPs)
	}
	for _, c := range s.plan.ServiceCIDRs {
		if c.Addr().Is4() == s.is4 {
			s.pen.start(services).to(c.Masked()).comment("kubernetes unallocated cluster IP").jump("DROP")
		}
	}
	return s.pen.take()
}

// letPass lets translated connections through a host whose policy is not to forward. kube-proxy also drops what connection
// tracking takes for invalid, unless that is liberal; the proxy makes it liberal, and other programs' packets are not ours
// to drop.
func (s *sheet) letPass() string {
	s.pen.start(forward).comment("kubernetes forwarding rules").s(" -m mark --mark ")
	s.mark().jump("ACCEPT")
	s.pen.start(forward).comment("kubernetes forwarding conntrack rule").s(" -m conntrack --ctstate RELATED,ESTABLISHED").jump("ACCEPT")
	return s.pen.take()
}

// guardLoopback keeps the network from the loopback addresses, which the setting route_localnet opens to it.
func (s *sheet) guardLoopback() string {
	lo := loopbackRange(true)
	s.pen.start(localnet).not(true).from(lo).to(lo).comment("block incoming localnet connections").
		s(" -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT").jump("DROP")
	return s.pen.take()
}
