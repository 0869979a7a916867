package scenario

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/kernel/link"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
)

// machine is a node as the scenarios have it: one device on the segment, the outside host as its router.
func machine(n *model.Node) podnet.Host {
	eth := link.Link{Name: "eth0", Up: true, MTU: 1500}
	var h podnet.Host
	for _, a := range n.Addrs {
		p := onSegment(a)
		eth.Addrs = append(eth.Addrs, p)
		router := p.Masked().Addr().Next()
		h.Routes = append(h.Routes, route.Route{Dst: p.Masked(), Device: eth.Name},
			route.Route{Dst: netip.PrefixFrom(router, 0).Masked(), Via: router, Device: eth.Name})
	}
	h.Links = []link.Link{eth}
	return h
}

// onSegment is a node's address with the length of its segment's prefix.
func onSegment(a netip.Addr) netip.Prefix {
	if a.Is4() {
		return netip.PrefixFrom(a, 24)
	}
	return netip.PrefixFrom(a, 64)
}

// network evaluates what the pod network of f.Node would program: its routes, the Pods' own, and the masquerading.
func (r *rendered) network(f flow.Flow) (flow.Verdict, error) {
	n := r.s.Nodes.At(f.Node)
	if n == nil {
		return flow.Verdict{}, fmt.Errorf("there is no node %q", f.Node)
	}
	host := machine(n)
	want, findings := podnet.Plan(r.s, podnet.Options{Node: n.Name, ServiceCIDRs: ServiceCIDRs}, host)
	dst := f.Dst.Addr()
	if slices.Contains(n.Addrs, dst) {
		return flow.Verdict{Action: flow.Pass, Node: n.Name, Why: "an address of the node"}, nil
	}
	if r.podHere(n.Name, dst) && len(n.PodCIDRs) > 0 {
		return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{f.Dst}, Node: n.Name, Why: "the Pod's own route"}, nil
	}
	way, found := route.Match(slices.Concat(want.Routes, host.Routes), dst)
	switch {
	case !found || way.Type != "":
		return flow.Verdict{Action: flow.Refused, Node: n.Name, Why: way.String(), Findings: findings}, nil
	case way.Proto == podnet.RouteProtocol && way.Device == podnet.TunnelDevice:
		return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{f.Dst}, Node: r.tunnelled(want, way.Via), Why: way.String()}, nil
	case way.Proto == podnet.RouteProtocol:
		return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{f.Dst}, Node: r.nodeAt(way.Via), Why: way.String()}, nil
	}
	v := flow.Verdict{Action: flow.Pass, Node: r.nodeAt(dst), Why: way.String()}
	if f.From == flow.FromPod && f.Src.Addr().IsValid() {
		return r.masqueraded(v, want, f)
	}
	return v, nil
}

// tunnelled is the node to which the tunnel's entries lead packets for a gateway.
func (r *rendered) tunnelled(want podnet.State, gateway netip.Addr) string {
	for _, near := range want.Neighbours {
		for _, far := range want.Neighbours {
			if !near.FDB && near.Addr == gateway && far.FDB && far.MAC == near.MAC {
				return r.nodeAt(far.Addr)
			}
		}
	}
	return ""
}

func (r *rendered) masqueraded(v flow.Verdict, want podnet.State, f flow.Flow) (flow.Verdict, error) {
	var tables []*knft.Table
	for _, t := range want.Tables {
		if t != nil {
			tables = append(tables, t)
		}
	}
	proto := uint8(knft.TCP)
	if f.Proto == flow.UDP {
		proto = knft.UDP
	}
	out, err := knft.Eval(tables, knft.Packet{Proto: proto, Src: f.Src, Dst: f.Dst, OIF: "eth0"})
	if err != nil {
		return v, fmt.Errorf("evaluate masquerading: %w", err)
	}
	for _, o := range out {
		v.Masquerade = v.Masquerade || o.Masquerade
	}
	return v, nil
}

func (r *rendered) podHere(node string, a netip.Addr) bool {
	for p := range r.s.Pods.Values() {
		if p.Node == node && !p.HostNetwork && lives(p) && slices.Contains(p.Addrs, a) {
			return true
		}
	}
	return false
}

// nodeAt is the node with the address, or "".
func (r *rendered) nodeAt(a netip.Addr) string {
	for n := range r.s.Nodes.Values() {
		if slices.Contains(n.Addrs, a) {
			return n.Name
		}
	}
	return ""
}
