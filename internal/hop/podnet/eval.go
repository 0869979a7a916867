package podnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
)

// Programmed is what this node's live routes, tunnel and masquerading would do with f.
func (h *Hop) Programmed(ctx context.Context, f flow.Flow) (flow.Verdict, error) {
	have, err := h.read(ctx)
	if err != nil {
		return flow.Verdict{}, err
	}
	e := evaluator{live: have, node: h.opt.Node, f: f, nodes: &model.Snapshot{}}
	if l := h.last.Load(); l != nil {
		e.nodes = l.snapshot
	}
	if f.From != flow.FromNode || f.Node != f.Sender {
		if v, err := h.doors.sysctl.Get(forwardKey(f.Dst.Addr().Is4())); err == nil && v == "0" {
			e.noForwarding = true
		}
	}
	r, err := h.doors.routes.Lookup(f.Dst.Addr(), netip.Addr{}, "")
	if err != nil && !errors.Is(err, route.ErrNoRoute) {
		return flow.Verdict{}, err
	}
	return e.verdict(r, err == nil)
}

// evaluator says what a node does with a flow, from what was read of it. The snapshot only gives names to addresses.
type evaluator struct {
	live
	node         string
	f            flow.Flow
	nodes        *model.Snapshot
	noForwarding bool
}

func (e *evaluator) verdict(r route.Route, found bool) (flow.Verdict, error) {
	dst := e.f.Dst.Addr()
	switch {
	case dst.IsMulticast():
		return flow.Verdict{Action: flow.Pass, Why: fmt.Sprintf("%s is a group, not a host", dst)}, nil
	case found && r.Type == route.Local:
		return flow.Verdict{Action: flow.Pass, Node: e.node, Why: fmt.Sprintf("%s is an address of this node", dst)}, nil
	case e.noForwarding:
		return flow.Verdict{Action: flow.Dropped, Why: forwardKey(dst.Is4()) + " is 0",
			Findings: []flow.Finding{forwardingOff(e.node, forwardKey(dst.Is4()), errors.New("the node drops packets that are not for itself"))}}, nil
	case !found || r.Type != "":
		return e.noWay(r, found), nil
	case r.Proto == RouteProtocol:
		return e.own(r), nil
	}
	return e.elsewhere(r)
}

// noWay is a destination without a route, or with one that says no.
func (e *evaluator) noWay(r route.Route, found bool) flow.Verdict {
	dst := e.f.Dst.Addr()
	v := flow.Verdict{Action: flow.Refused, Why: fmt.Sprintf("no route to %s", dst)}
	if found {
		v.Why = r.String()
		if r.Type == route.Blackhole {
			v.Action = flow.Dropped
		}
	}
	owner, _ := ownerOf(e.nodes, dst)
	switch {
	case found && r.Proto == RouteProtocol || owner == e.node:
		v.Node = e.node
		v.Findings = []flow.Finding{noVeth(e.node, dst, "programmed "+v.Why)}
	case owner != "":
		v.Findings = []flow.Finding{noRoute(e.node, dst, owner, "programmed "+v.Why)}
	}
	return v
}

// own is a route of podway's: to a Pod here, through the tunnel, or to another node on the same network.
func (e *evaluator) own(r route.Route) flow.Verdict {
	v := flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{e.f.Dst}, Device: r.Device, Via: r.Via, Why: r.String()}
	switch {
	case isVethName(r.Device):
		v.Node = e.node
		if !e.Veths[r.Device].Up {
			v.Action, v.Targets = flow.Dropped, nil
			v.Findings = []flow.Finding{noVeth(e.node, e.f.Dst.Addr(), fmt.Sprintf("programmed device %s is down", r.Device))}
		}
	case r.Device == TunnelDevice:
		return e.tunnelled(v, r)
	default:
		v.Node = e.nameOf(r.Via)
	}
	return v
}

// tunnelled follows a packet into the tunnel: the gateway's Ethernet address, and the node that has it.
func (e *evaluator) tunnelled(v flow.Verdict, r route.Route) flow.Verdict {
	missing := ""
	near := slices.IndexFunc(e.Neighbours, func(n route.Neighbour) bool { return !n.FDB && n.Addr == r.Via })
	if near < 0 {
		missing = fmt.Sprintf("programmed no neighbour entry for %s on %s", r.Via, r.Device)
	} else {
		mac := e.Neighbours[near].MAC
		far := slices.IndexFunc(e.Neighbours, func(n route.Neighbour) bool { return n.FDB && n.MAC == mac })
		if far >= 0 {
			v.Node = e.nameOf(e.Neighbours[far].Addr)
			v.Why += ", in VXLAN to " + e.Neighbours[far].Addr.String()
			return v
		}
		missing = fmt.Sprintf("programmed no forwarding entry for %s on %s", mac, r.Device)
	}
	owner, _ := ownerOf(e.nodes, e.f.Dst.Addr())
	v.Action, v.Targets = flow.Dropped, nil
	v.Findings = []flow.Finding{noRoute(e.node, e.f.Dst.Addr(), owner, missing)}
	return v
}

// elsewhere is a route that is not podway's: out of the cluster, or to a node.
func (e *evaluator) elsewhere(r route.Route) (flow.Verdict, error) {
	dst := e.f.Dst.Addr()
	v := flow.Verdict{Action: flow.Pass, Device: r.Device, Via: r.Via, Why: r.String()}
	if n := nodeWith(e.nodes, dst); n != nil {
		v.Node = n.Name
	} else if owner, _ := ownerOf(e.nodes, dst); owner != "" {
		v.Findings = []flow.Finding{noRoute(e.node, dst, owner, "programmed "+r.String())}
	}
	if e.f.From != flow.FromPod || !e.f.Src.Addr().IsValid() {
		return v, nil
	}
	var tables []*nft.Table
	for _, t := range e.Tables {
		if t != nil {
			tables = append(tables, t)
		}
	}
	out, err := nft.Eval(tables, nft.Packet{Proto: e.f.Proto.Number(), Src: e.f.Src, Dst: e.f.Dst, OIF: r.Device})
	if err != nil {
		return v, fmt.Errorf("podnet: evaluate table %s: %w", Table, err)
	}
	for _, o := range out {
		v.Masquerade = v.Masquerade || o.Masquerade
	}
	return v, nil
}

// nameOf returns the name of the node with an address; "" when no node has it.
func (e *evaluator) nameOf(a netip.Addr) string {
	if n := nodeWith(e.nodes, a); n != nil {
		return n.Name
	}
	return ""
}
