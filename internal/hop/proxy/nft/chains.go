package nft

import (
	"time"

	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
)

// layout is where things stand in the registers while an endpoint is chosen: client, vip (address, protocol, port), and
// then first the slot and in its place the endpoint. Keys of all maps are stretches of this row.
type layout struct {
	f                    knft.Family
	client, vip, l4, to  knft.Reg
	endpoint, targetPort knft.Reg
}

// layoutOf places the row; without affinity there is no client in it.
func layoutOf(f knft.Family, withClient bool) layout {
	words := knft.Reg(1)
	if f == knft.IPv6 {
		words = 4
	}
	l := layout{f: f}
	if withClient {
		l.vip = words
	}
	l.l4 = l.vip + words
	l.to = l.l4 + 1
	l.endpoint = l.to + 1
	l.targetPort = l.endpoint + words
	return l
}

// frontend loads the address, protocol and port that the packet was sent to.
func (l layout) frontend() []knft.Expr {
	return []knft.Expr{knft.DstAddr(l.f, l.vip), knft.L4Proto(l.l4), knft.DstPort(l.to)}
}

// load fills the row up to the vip.
func (l layout) load(c class) []knft.Expr {
	var out []knft.Expr
	if c.affinity > 0 {
		out = append(out, knft.SrcAddr(l.f, l.client))
	}
	out = append(out, l.frontend()...)
	if c.external {
		out = append(out, knft.MapTo(external, l.vip, l.vip))
	}
	return out
}

// pick draws a slot and replaces it by the endpoint.
func (l layout) pick(n uint16, offset uint32) []knft.Expr {
	var draw knft.Expr = knft.Numgen{Dst: l.endpoint, Mod: uint32(n), Offset: offset}
	if n == 1 {
		draw = knft.Immediate{Dst: l.endpoint, Data: knft.Key{}.Mark(offset).String()}
	}
	return []knft.Expr{draw, knft.MapTo(endpoints, l.vip, l.endpoint)}
}

func (l layout) dnat() knft.Expr {
	return knft.NAT{Family: l.f, AddrReg: l.endpoint, HasPort: true, PortReg: l.targetPort}
}

func (l layout) remember(op knft.DynOp, c class) knft.Expr {
	d := knft.Dynset{Set: affinity, Op: op, Key: l.client, Map: true, Data: l.endpoint}
	if op != knft.DynDelete {
		d.Timeout = time.Duration(c.affinity) * time.Second
	}
	return d
}

// choose are the rules that send a packet that matches cond to one of n endpoints.
func choose(f knft.Family, c class, cond []knft.Expr, n uint16, offset uint32) []knft.Rule {
	l := layoutOf(f, c.affinity > 0)
	fresh := knft.R(cond, l.load(c), l.pick(n, offset), l.dnat())
	if c.affinity == 0 {
		return []knft.Rule{fresh}
	}
	valid := sticky
	if offset == localSlots {
		valid = stickyHere
	}
	known := append(l.load(c), knft.MapTo(affinity, l.client, l.endpoint))
	return []knft.Rule{
		knft.R(cond, known, knft.InSet(valid, l.vip), l.remember(knft.DynUpdate, c), l.dnat()),
		knft.R(cond, known, knft.NotInSet(valid, l.vip), l.remember(knft.DynDelete, c)),
		knft.R(cond, l.load(c), l.pick(n, offset), l.remember(knft.DynAdd, c), l.dnat()),
		fresh, // no room to remember another client
	}
}

// rules of a class's chain. The final drop is for the moment in which a packet sees the class of one generation of the
// maps and the endpoints of the next: the client's retry is a new connection.
func (c class) rules(f knft.Family, n *proxy.Node) []knft.Rule {
	var out []knft.Rule
	if c.guarded {
		l := layoutOf(f, false)
		out = append(out, knft.R(l.frontend(), knft.SrcAddr(f, l.endpoint), knft.NotInSet(sources, l.vip), knft.Verdict{Kind: knft.Drop}))
	}
	switch {
	case c.refuse:
		return append(out, knft.R(knft.To(reject)))
	case c.none:
		return append(out, knft.R(knft.Verdict{Kind: knft.Drop}))
	case c.external && c.local: // clients in the cluster are not bound by externalTrafficPolicy
		if c.cluster > 0 {
			for _, p := range n.Pods(f == knft.IPv4) {
				out = append(out, choose(f, c, knft.SrcIn(p), c.cluster, 0)...)
			}
			out = append(out, choose(f, c, knft.FromLocal(), c.cluster, 0)...)
		}
	case !c.local:
		out = append(out, choose(f, c, nil, c.cluster, 0)...)
	}
	if c.local && c.here > 0 {
		out = append(out, choose(f, c, nil, c.here, localSlots)...)
	}
	return append(out, knft.R(knft.Verdict{Kind: knft.Drop}))
}

// base are the chains that do not depend on any Service.
func base(t *knft.Table, p *proxy.Plan) {
	f := t.Family
	hook := func(name string, h knft.Hook, prio int32, rules ...knft.Rule) *knft.Chain {
		return &knft.Chain{Name: name, Base: &knft.Base{Type: "nat", Hook: h, Priority: prio}, Rules: rules}
	}
	t.AddChain(
		hook(prerouting, knft.Prerouting, knft.PriorityDstNAT, knft.R(knft.To(toServices))),
		hook(output, knft.Output, knft.PriorityDstNAT, knft.R(knft.To(toServices))),
		hook(postrouting, knft.Postrouting, knft.PrioritySrcNAT, postroutingRules(f)...),
		&knft.Chain{Name: toServices, Rules: serviceRules(f, p)},
		&knft.Chain{Name: reject, Rules: knft.RejectRules(f)},
		&knft.Chain{Name: drop, Rules: []knft.Rule{knft.R(knft.Verdict{Kind: knft.Drop})}},
		&knft.Chain{Name: masqAlways, Rules: []knft.Rule{knft.R(knft.Masquerade{FullyRandom: true})}},
		&knft.Chain{Name: masqOwn, Rules: []knft.Rule{knft.R(knft.FromLocal(), knft.Masquerade{FullyRandom: true})}},
		&knft.Chain{Name: masqForeign, Rules: foreignRules(f, &p.Node)},
	)
}

func serviceRules(f knft.Family, p *proxy.Plan) []knft.Rule {
	l := layoutOf(f, false)
	out := []knft.Rule{
		knft.R(l.frontend(), knft.MapTo(services, l.vip, l.vip), knft.VMap(dispatch, l.vip)),
		knft.R(knft.DstAddr(f, 0), knft.InSet(clusterIPs, 0), knft.To(reject)),
	}
	for _, r := range p.ServiceCIDRs {
		if r.Addr().Is4() == (f == knft.IPv4) {
			out = append(out, knft.R(knft.DstIn(r), knft.Verdict{Kind: knft.Drop}))
		}
	}
	return out
}

// postroutingRules look at the connection's first destination again instead of carrying a mark through the host, where
// marks are also other programs'.
func postroutingRules(f knft.Family) []knft.Rule {
	l := layoutOf(f, false)
	dst := knft.CtDstIP
	if f == knft.IPv6 {
		dst = knft.CtDstIP6
	}
	untouched := knft.HasBits(knft.Ct{Key: knft.CtStatus}, knft.StatusDNAT)
	cmp := untouched[2].(knft.Cmp)
	cmp.Op = knft.Eq
	untouched[2] = cmp
	return []knft.Rule{
		knft.R(untouched, knft.Verdict{Kind: knft.Return}),
		knft.R(knft.SrcAddr(f, l.vip), knft.DstAddr(f, l.l4), knft.InSet(hairpin, l.vip), knft.To(masqAlways)),
		knft.R(knft.Ct{Key: dst, Original: true, Dst: l.vip}, knft.L4Proto(l.l4), knft.Ct{Key: knft.CtProtoDst, Original: true, Dst: l.to},
			knft.MapTo(services, l.vip, l.vip), knft.VMap(masquerade, l.vip)),
	}
}

func foreignRules(f knft.Family, n *proxy.Node) []knft.Rule {
	var out []knft.Rule
	for _, p := range n.Pods(f == knft.IPv4) {
		out = append(out, knft.R(knft.SrcIn(p), knft.Verdict{Kind: knft.Return}))
	}
	return append(out, knft.R(knft.Masquerade{FullyRandom: true}))
}
