package ipvs

import (
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/nft"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// row is where things stand in the registers: a frontend (address, protocol, port), then an address and its port.
type row struct {
	f                     knft.Family
	l4, to, addr, portReg knft.Reg
}

func rowOf(f knft.Family) row {
	words := knft.Reg(1)
	if f == knft.IPv6 {
		words = 4
	}
	return row{f: f, l4: words, to: words + 1, addr: words + 2, portReg: 2*words + 2}
}

// frontend loads what the packet is sent to, original what the connection's first packet was sent to by its client.
func (r row) frontend() []knft.Expr {
	return []knft.Expr{knft.DstAddr(r.f, 0), knft.L4Proto(r.l4), knft.DstPort(r.to)}
}

func (r row) original() []knft.Expr {
	dst := knft.CtDstIP
	if r.f == knft.IPv6 {
		dst = knft.CtDstIP6
	}
	return []knft.Expr{knft.Ct{Key: dst, Original: true, Dst: 0}, knft.L4Proto(r.l4), knft.Ct{Key: knft.CtProtoDst, Original: true, Dst: r.to}}
}

// chains puts all chains into a table. They are of type nat, which only the first packet of a connection passes, and come
// before IPVS: both the hook of delivery to this host and that of its own packets are later.
func chains(t *knft.Table, p *proxy.Plan) {
	f := t.Family
	hook := func(name string, h knft.Hook, prio int32, rules ...knft.Rule) *knft.Chain {
		return &knft.Chain{Name: name, Base: &knft.Base{Type: "nat", Hook: h, Priority: prio}, Rules: rules}
	}
	t.AddChain(
		hook(prerouting, knft.Prerouting, knft.PriorityDstNAT, knft.R(knft.To(toServices))),
		hook(output, knft.Output, knft.PriorityDstNAT, knft.R(knft.To(toServices))),
		hook(postrouting, knft.Postrouting, knft.PrioritySrcNAT, postroutingRules(f, p)...),
		&knft.Chain{Name: toServices, Rules: serviceRules(f, p)},
		&knft.Chain{Name: reject, Rules: append([]knft.Rule{resets()}, knft.RejectRules(f)...)},
		&knft.Chain{Name: masqAlways, Rules: []knft.Rule{knft.R(knft.Masquerade{FullyRandom: true})}},
		&knft.Chain{Name: masqForeign, Rules: nft.ForeignRules(f, &p.Node)},
	)
}

// serviceRules decide what IPVS does not get to see. Everything else on an address of the device is refused: the address
// is this host's, and so would be its other ports.
func serviceRules(f knft.Family, p *proxy.Plan) []knft.Rule {
	r := rowOf(f)
	drop := knft.Verdict{Kind: knft.Drop}
	out := []knft.Rule{
		knft.R(r.frontend(), knft.InSet(setGuarded, 0), knft.SrcAddr(f, r.addr), knft.NotInSet(setSources, 0), drop),
		knft.R(r.frontend(), knft.InSet(setNoEndpoint, 0), knft.To(reject)),
	}
	for _, onNode := range append(nft.FromPods(p.LocalPods(f == knft.IPv4)), knft.FromLocal()) {
		out = append(out, knft.R(onNode, r.frontend(), knft.MapTo(mapInside, 0, r.addr),
			knft.NAT{Family: f, AddrReg: r.addr, HasPort: true, PortReg: r.portReg}))
	}
	icmp := knft.ICMP
	if f == knft.IPv6 {
		icmp = knft.ICMPv6
	}
	out = append(out,
		knft.R(r.frontend(), knft.InSet(setNoneHere, 0), drop),
		knft.R(r.frontend(), knft.InSet(setFrontends, 0), knft.Verdict{Kind: knft.Return}),
		knft.R(knft.IsL4Proto(icmp), knft.Verdict{Kind: knft.Return}), // the node answers a ping of a Service's address
		knft.R(knft.DstAddr(f, 0), knft.InSet(setIPs, 0), knft.To(reject)),
	)
	for _, c := range p.ServiceCIDRs {
		if c.Addr().Is4() == (f == knft.IPv4) {
			out = append(out, knft.R(knft.DstIn(c), drop))
		}
	}
	return out
}

// postroutingRules look at the connection's first destination again instead of carrying a mark through the host, where
// marks are also other programs'. The node's own connections to an address of the device have that address as source:
// the last rules hide it whatever the policy.
func postroutingRules(f knft.Family, p *proxy.Plan) []knft.Rule {
	r := rowOf(f)
	in := func(set string, then ...any) knft.Rule {
		return knft.R(append([]any{r.original(), knft.InSet(set, 0)}, then...)...)
	}
	out := []knft.Rule{
		knft.R(r.original(), knft.NotInSet(setFrontends, 0), knft.Verdict{Kind: knft.Return}),
		knft.R(knft.SrcAddr(f, 0), knft.DstAddr(f, r.l4), knft.InSet(setLoopback, 0), knft.To(masqAlways)),
		knft.R(knft.SrcAddr(f, 0), knft.InSet(setIPs, 0), knft.To(masqAlways)),
	}
	switch {
	case p.Settings.MasqueradeAll:
		out = append(out, in(setClusterIP, knft.To(masqAlways)))
	case p.LocalPods(f == knft.IPv4).Known():
		out = append(out, in(setClusterIP, knft.To(masqForeign)))
	}
	for _, s := range externalSets(false) {
		out = append(out, in(s, knft.To(masqAlways)))
	}
	for _, s := range externalSets(true) {
		out = append(out, in(s, knft.FromLocal(), knft.To(masqAlways)))
	}
	return out
}

// resets lets a TCP reset go. The one that refuses a connection of the node itself goes to an address of the device, which
// the kernel gave the connection as source, and to a port that is no Service's.
func resets() knft.Rule {
	const flags, rst = 13, "\x04"
	return knft.R(knft.IsL4Proto(knft.TCP), knft.Payload{Base: knft.Transport, Offset: flags, Len: 1}, knft.Bitwise{Mask: rst, Xor: "\x00"},
		knft.Cmp{Op: knft.Neq, Data: "\x00"}, knft.Verdict{Kind: knft.Return})
}

func externalSets(local bool) []string {
	out := []string{setLB, setExternal}
	if local {
		out = []string{setLBLocal, setExternalLocal}
	}
	for _, proto := range []uint8{knft.TCP, knft.UDP, knft.SCTP} {
		out = append(out, setNodePort(proto, local))
	}
	return out
}
