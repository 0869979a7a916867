package proxy

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy/maglev"
	"github.com/podway/podway/internal/model"
)

// Declared implements hop.Hop: what the API says should happen to f on the node f.Node (this one when it is empty). It
// follows the plan and knows nothing of any backend's rules, so that comparing the two means something.
func (p *Proxy) Declared(s *model.Snapshot, f flow.Flow) flow.Verdict {
	node := f.Node
	if node == "" {
		node = p.config.Node
	}
	h, ok := p.backend.(holder)
	return p.memo.plan(s, p.config.on(node)).declare(s, f, ok && h.HoldsAddresses())
}

// holder is a backend that gives the node all addresses of Services, so that packets to other ports of them are the
// node's to refuse, also where the address is not a ClusterIP.
type holder interface{ HoldsAddresses() bool }

// on is the configuration by which another node is judged: of its host nothing is known.
func (c Config) on(node string) Config {
	if node != c.Node {
		c.Node, c.Host = node, nil
	}
	return c
}

// declare decides one flow by the plan.
func (p *Plan) declare(s *model.Snapshot, f flow.Flow, held bool) flow.Verdict {
	port, at := p.find(f.Dst, f.Proto)
	if port == nil {
		return p.stray(f, p.ServiceCIDRs, held)
	}
	v := p.serve(port, at, f)
	v.Why = fmt.Sprintf("Service %s port %s (%s %s), %s", port.Service, portName(port), at.Kind, at.Addr, v.Why)
	if v.Action != flow.Forward {
		v.Findings = port.findings(s, v, f, p.Node.Name)
	}
	return v
}

func portName(p *Port) string {
	if p.Name != "" {
		return fmt.Sprintf("%s %d", p.Name, p.ClusterIP.Port())
	}
	return fmt.Sprint(p.ClusterIP.Port())
}

// find looks for the port that answers at an address.
func (p *Plan) find(dst netip.AddrPort, proto flow.Proto) (*Port, Frontend) {
	for s := range p.Services.Values() {
		for _, port := range s.Ports {
			if port.Proto != proto {
				continue
			}
			if port.ClusterIP == dst {
				return port, Frontend{Kind: ClusterIP, Addr: dst}
			}
			for _, f := range port.External {
				if f.Addr == dst {
					return port, f
				}
			}
		}
	}
	return nil, Frontend{}
}

// serve applies the policies of a port to a flow that reached one of its frontends.
func (p *Plan) serve(port *Port, at Frontend, f flow.Flow) flow.Verdict {
	src := f.Src.Addr()
	if at.Guarded && !in(at.Sources, src) {
		return flow.Verdict{Action: flow.Dropped, Why: "the source is not in loadBalancerSourceRanges"}
	}
	if !port.Any {
		return flow.Verdict{Action: flow.Refused, Why: "no endpoint is ready"}
	}
	ourPod, ourNode := p.Node.FromLocalPod(f), f.From == flow.FromNode
	foreign := p.Settings.MasqueradeAll || p.LocalPods(port.Is4()).Known() && !ourPod
	targets, local, masquerade := port.Cluster, false, false
	switch {
	case at.Kind == ClusterIP && port.InternalLocal:
		targets, local, masquerade = port.Local, true, foreign
	case at.Kind == ClusterIP:
		masquerade = foreign
	case !port.ExternalLocal:
		masquerade = true
	case ourNode:
		masquerade = true
	case !ourPod:
		targets, local = port.Local, true
	}
	if len(targets) == 0 && local {
		return flow.Verdict{Action: flow.Dropped, Why: "the traffic policy is Local and no endpoint is on " + p.Node.Name}
	}
	targets = port.narrow(targets, src)
	v := flow.Verdict{Action: flow.Forward, Targets: targets, Sticky: port.Affinity > 0, Why: fmt.Sprintf("%d of its endpoints", len(targets))}
	v.Masquerade = p.masquerades(port, f, targets, masquerade)
	return v
}

// narrow is the one endpoint that a client's address leads to where that decides, else all.
func (p *Port) narrow(targets []netip.AddrPort, client netip.Addr) []netip.AddrPort {
	if !p.Maglev || len(targets) == 0 || !client.IsValid() || client.IsUnspecified() {
		return targets
	}
	table := maglev.Table(targets)
	i := table[maglev.Slot(client, len(table))]
	return targets[i : i+1]
}

// masquerades reports whether whichever target is chosen sees the node's address. A packet from elsewhere to the node's
// own address is delivered there as it is, and an endpoint that is sent its own request always sees the node's.
func (p *Plan) masquerades(port *Port, f flow.Flow, targets []netip.AddrPort, always bool) bool {
	for _, t := range targets {
		hairpin := f.Src.Addr() == t.Addr()
		if hairpin {
			hairpin = false
			for _, h := range port.Hairpin {
				hairpin = hairpin || h == t.Addr()
			}
		}
		delivered := f.From != flow.FromNode && p.Node.Has(t.Addr())
		if delivered || !always && !hairpin {
			return false
		}
	}
	return len(targets) > 0
}

func in(ps []netip.Prefix, a netip.Addr) bool {
	for _, p := range ps {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// stray decides about an address and port that no Service answers at.
func (p *Plan) stray(f flow.Flow, ranges []netip.Prefix, held bool) flow.Verdict {
	dst := f.Dst.Addr()
	for s := range p.Services.Values() {
		for _, port := range s.Ports {
			if port.ClusterIP.Addr() == dst || held && port.answersAt(dst) && !p.Node.Has(dst) {
				return flow.Verdict{Action: flow.Refused, Why: fmt.Sprintf("Service %s has no %s port %d", s.Name, f.Proto, f.Dst.Port()),
					Findings: []flow.Finding{noSuchPort(s, f)}}
			}
		}
	}
	if in(ranges, dst) {
		return flow.Verdict{Action: flow.Dropped, Why: fmt.Sprintf("%s is in the range of Services and none has it", dst),
			Findings: []flow.Finding{finding(flow.AddressUnused, "address "+dst.String(), fmt.Sprintf("No Service has the address %s.", dst))}}
	}
	v := flow.Verdict{Action: flow.Pass, Why: fmt.Sprintf("%s is no Service's", f.Dst)}
	if p.Node.Has(dst) && f.Dst.Port() >= 30000 && f.Dst.Port() < 32768 {
		v.Findings = []flow.Finding{finding(flow.NoSuchNodePort, "node "+p.Node.Name, fmt.Sprintf("No Service has the %s node port %d.", f.Proto, f.Dst.Port()))}
	}
	return v
}

// answersAt reports whether the port answers at an address that is not its ClusterIP.
func (p *Port) answersAt(a netip.Addr) bool {
	return slices.ContainsFunc(p.External, func(f Frontend) bool { return f.Addr.Addr() == a })
}
