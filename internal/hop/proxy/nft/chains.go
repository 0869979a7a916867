package nft

import (
	"time"

	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/maglev"
)

// row is where things stand in the registers while an endpoint is chosen: frontend (address, protocol, port), slot, then
// the endpoint. Keys of all maps are stretches of it. With affinity the client and the owner come before it, the token takes
// the slot's place, and the endpoint the frontend's: so an IPv6 row fits into the 16 registers.
type row struct {
	f            knft.Family
	client, id   knft.Reg
	front        knft.Reg
	l4, to, slot knft.Reg
	addr, port   knft.Reg // of the endpoint
	spare        knft.Reg
}

// rowOf places the row.
func rowOf(f knft.Family, withAffinity bool) row {
	words := knft.Reg(1)
	if f == knft.IPv6 {
		words = 4
	}
	r := row{f: f}
	if withAffinity {
		r.id = words
		r.front = words + 1
	}
	r.l4 = r.front + words
	r.to = r.l4 + 1
	r.slot = r.to + 1
	if withAffinity {
		r.addr, r.port, r.spare = r.front, r.l4, r.slot+1
		return r
	}
	r.addr, r.port = r.slot, r.slot+words
	r.client, r.spare = r.port+1, r.port
	return r
}

// frontend loads the address, protocol and port that the packet was sent to.
func (r row) frontend() []knft.Expr {
	return []knft.Expr{knft.DstAddr(r.f, r.front), knft.L4Proto(r.l4), knft.DstPort(r.to)}
}

// noAddress makes the address at the beginning of the frontend the unspecified one, which NodePorts have. It is masked away
// instead of a constant in its place, because the nft command does not know the type of a constant in a key.
func (r row) noAddress() knft.Expr {
	zero := string(unspecified(r.f).AsSlice())
	return knft.Bitwise{Src: r.front, Dst: r.front, Mask: zero, Xor: zero}
}

// nodePort loads the frontend of the NodePort that the packet was sent to.
func (r row) nodePort() []knft.Expr {
	return []knft.Expr{knft.DstAddr(r.f, r.front), r.noAddress(), knft.L4Proto(r.l4), knft.DstPort(r.to)}
}

func (r row) of(c class) []knft.Expr {
	if c.node {
		return r.nodePort()
	}
	return r.frontend()
}

// draw puts a slot in its place: a random one, or the one that the client's address says.
func (r row) draw(c class, n uint16, offset uint32) []knft.Expr {
	if !c.maglev {
		return []knft.Expr{knft.Numgen{Dst: r.slot, Mod: uint32(n), Offset: offset}}
	}
	size := uint8(knft.AddrType(r.f).Len())
	return []knft.Expr{knft.SrcAddr(r.f, r.client), knft.Hash{Dst: r.slot, Src: r.client, Len: size, Seed: maglev.Seed, Mod: uint32(n), Offset: offset}}
}

func (r row) dnat() knft.Expr {
	return knft.NAT{Family: r.f, AddrReg: r.addr, HasPort: true, PortReg: r.port}
}

// class replaces the frontend by the number of its class.
func (r row) class() []knft.Expr {
	return append([]knft.Expr{knft.MapTo(services, r.front, r.front)}, knft.Number(r.front, r.spare, r.front)...)
}

// number looks a number up that is to be a part of another key.
func (r row) number(mapName string, key, to knft.Reg) []knft.Expr {
	return append([]knft.Expr{knft.MapTo(mapName, key, to)}, knft.Number(to, r.spare, to)...)
}

func (r row) remember(op knft.DynOp, c class) knft.Expr {
	d := knft.Dynset{Set: affinity, Op: op, Key: r.client, Map: true, Data: r.slot}
	if op != knft.DynDelete {
		d.Timeout = time.Duration(c.affinity) * time.Second
	}
	return d
}

// choose are the rules that send a packet that matches cond to one of the endpoints that n numbers from offset on lead to.
func choose(f knft.Family, c class, cond []knft.Expr, n uint16, offset uint32) []knft.Rule {
	if c.affinity == 0 {
		r := rowOf(f, false)
		return []knft.Rule{knft.R(cond, r.of(c), r.draw(c, n, offset), knft.MapTo(endpoints, r.front, r.addr), r.dnat())}
	}
	r, byToken := rowOf(f, true), sticky
	if offset == localSlots {
		byToken = stickyLocal
	}
	load := append([]knft.Expr{knft.SrcAddr(f, r.client)}, r.of(c)...)
	load = append(load, r.number(owners, r.front, r.id)...)
	anew := append(r.draw(c, n, offset), r.number(tokens, r.front, r.slot)...)
	endpoint := knft.MapTo(byToken, r.front, r.addr)
	return []knft.Rule{
		knft.R(cond, load, r.number(affinity, r.client, r.slot), endpoint, r.remember(knft.DynUpdate, c), r.dnat()),
		// Nobody remembered, or an endpoint that is gone; a remembered one must go before another can be put in its place.
		knft.R(cond, load, r.number(affinity, r.client, r.slot), r.remember(knft.DynDelete, c)),
		knft.R(cond, load, anew, endpoint, r.remember(knft.DynAdd, c), r.dnat()),
		// No room to remember another client.
		knft.R(cond, load, anew, endpoint, r.dnat()),
	}
}

// rules of a class's chain. The final drop is for the moment in which a packet sees the class of one generation of the
// maps and the endpoints of the next: the client's retry is a new connection.
func (c class) rules(f knft.Family, n *proxy.Node) []knft.Rule {
	var out []knft.Rule
	if c.guarded {
		r := rowOf(f, false)
		out = append(out, knft.R(r.frontend(), knft.SrcAddr(f, r.slot), knft.NotInSet(sources, r.front), knft.Verdict{Kind: knft.Drop}))
	}
	switch {
	case c.refuse:
		return append(out, knft.R(knft.To(reject)))
	case c.none:
		return append(out, knft.R(knft.Verdict{Kind: knft.Drop}))
	case c.external && c.local: // clients in the cluster are not bound by externalTrafficPolicy
		if c.cluster > 0 {
			for _, fromPod := range FromPods(n.LocalPods(f == knft.IPv4)) {
				out = append(out, choose(f, c, fromPod, c.cluster, 0)...)
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

// base are the chains that do not depend on any Service. They are of type nat, which only the first packet of a
// connection passes: the rest costs nothing here.
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
		&knft.Chain{Name: masqForeign, Rules: ForeignRules(f, &p.Node)},
	)
}

func serviceRules(f knft.Family, p *proxy.Plan) []knft.Rule {
	r := rowOf(f, false)
	out := []knft.Rule{
		knft.R(r.frontend(), r.class(), knft.VMap(dispatch, r.front)),
		knft.R(knft.DstAddr(f, r.front), knft.InSet(nodeAddrs, r.front), r.noAddress(), knft.L4Proto(r.l4), knft.DstPort(r.to),
			r.class(), knft.VMap(dispatch, r.front)),
		knft.R(knft.DstAddr(f, 0), knft.InSet(clusterIPs, 0), knft.To(reject)),
	}
	for _, c := range p.ServiceCIDRs {
		if c.Addr().Is4() == (f == knft.IPv4) {
			out = append(out, knft.R(knft.DstIn(c), knft.Verdict{Kind: knft.Drop}))
		}
	}
	return out
}

// postroutingRules look at the connection's first destination again instead of carrying a mark through the host, where
// marks are also other programs'.
func postroutingRules(f knft.Family) []knft.Rule {
	r := rowOf(f, false)
	dst := knft.CtDstIP
	if f == knft.IPv6 {
		dst = knft.CtDstIP6
	}
	return []knft.Rule{
		knft.R(knft.NotTranslated(), knft.Verdict{Kind: knft.Return}),
		knft.R(knft.SrcAddr(f, r.front), knft.DstAddr(f, r.l4), knft.InSet(hairpin, r.front), knft.To(masqAlways)),
		knft.R(knft.Ct{Key: dst, Original: true, Dst: r.front}, knft.L4Proto(r.l4), knft.Ct{Key: knft.CtProtoDst, Original: true, Dst: r.to},
			r.class(), knft.VMap(masquerade, r.front)),
		knft.R(knft.Ct{Key: dst, Original: true, Dst: r.front}, knft.InSet(nodeAddrs, r.front), r.noAddress(), knft.L4Proto(r.l4),
			knft.Ct{Key: knft.CtProtoDst, Original: true, Dst: r.to}, r.class(), knft.VMap(masquerade, r.front)),
	}
}

// ForeignRules masquerade what is not from a Pod of this node. Mode ipvs has them too.
func ForeignRules(f knft.Family, n *proxy.Node) []knft.Rule {
	var out []knft.Rule
	for _, fromPod := range FromPods(n.LocalPods(f == knft.IPv4)) {
		out = append(out, knft.R(fromPod, knft.Verdict{Kind: knft.Return}))
	}
	return append(out, knft.R(knft.Masquerade{FullyRandom: true}))
}

// FromPods are conditions of which one holds for packets from Pods of this node. The device that a packet came in by is
// known in postrouting too.
func FromPods(s proxy.PodSource) [][]knft.Expr {
	switch {
	case s.Begins:
		return [][]knft.Expr{knft.IIFBegins(s.Device)}
	case s.Device != "":
		return [][]knft.Expr{knft.IIF(s.Device, false)}
	}
	var out [][]knft.Expr
	for _, p := range s.In {
		out = append(out, knft.SrcIn(p))
	}
	return out
}
