package ipvs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/nft"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// Ruleset implements proxy.Ruleset: what is rendered, or what was read from the kernel.
type Ruleset struct {
	node   proxy.Node
	tables []*knft.Table
	state  *kipvs.State
	// look and has ask the kernel for what was not read into state.
	look func(kipvs.Key) (*kipvs.Server, error)
	has  func(netip.Addr) (bool, error)
}

func newRuleset(n proxy.Node) *Ruleset { return &Ruleset{node: n, state: kipvs.NewState()} }

// Text implements proxy.Ruleset: tables in the syntax of the nft command, then the device's addresses and the virtual
// servers as ipvsadm shows them, without those that others may have in excluded ranges.
func (r *Ruleset) Text() string {
	var b strings.Builder
	for _, t := range r.tables {
		b.WriteString(t.Text())
	}
	shown := *r.state
	if excluded := r.excluded(); len(excluded) > 0 {
		shown.Servers = maps.Clone(shown.Servers)
		maps.DeleteFunc(shown.Servers, func(k kipvs.Key, _ *kipvs.Server) bool { return within(excluded, addrKey(k.Addr.Addr())) })
	}
	b.WriteString(shown.Text(Device))
	return b.String()
}

// table returns the family's table or nil.
func (r *Ruleset) table(f knft.Family) *knft.Table {
	for _, t := range r.tables {
		if t.Family == f {
			return t
		}
	}
	return nil
}

// Eval implements proxy.Ruleset: it walks the flow's first packet through the rules before IPVS, the virtual server and
// the rules after it.
func (r *Ruleset) Eval(f flow.Flow) flow.Verdict {
	v, err := r.eval(f)
	if err != nil {
		return flow.Verdict{Action: flow.Dropped, Why: err.Error(),
			Findings: []flow.Finding{{Code: flow.RulesDiffer, Severity: flow.Error, Object: "table " + tableName, Cause: "The node has rules that are not podway's: " + err.Error() + "."}}}
	}
	return v
}

func (r *Ruleset) eval(f flow.Flow) (flow.Verdict, error) {
	p := r.packet(f)
	o, err := r.walk(p, knft.Prerouting, knft.Output)
	if err != nil {
		return flow.Verdict{}, err
	}
	why := "no rule"
	if len(o.Path) > 0 {
		why = o.Path[len(o.Path)-1]
	}
	switch {
	case o.Rejected:
		return flow.Verdict{Action: flow.Refused, Why: why}, nil
	case o.Verdict == knft.Drop:
		return flow.Verdict{Action: flow.Dropped, Why: why}, nil
	}
	if here, err := r.delivered(o.Dst.Addr()); err != nil || !here && !p.FromHost {
		return flow.Verdict{Action: flow.Pass, Why: why}, err
	}
	s, err := r.server(kipvs.Key{Addr: o.Dst, Proto: p.Proto})
	if err != nil || s == nil {
		return flow.Verdict{Action: flow.Pass, Why: why}, err
	}
	return r.serve(p, o, s)
}

// delivered reports whether packets to an address are for this host, where IPVS sees them.
func (r *Ruleset) delivered(a netip.Addr) (bool, error) {
	if r.node.Has(a) || r.has == nil {
		return r.node.Has(a) || r.state.Addrs[a], nil
	}
	return r.has(a)
}

func (r *Ruleset) server(k kipvs.Key) (*kipvs.Server, error) {
	if r.look != nil {
		return r.look(k)
	}
	return r.state.Servers[k], nil
}

// packet is a flow's first packet; the addresses of the device of virtual servers are the node's too.
func (r *Ruleset) packet(f flow.Flow) knft.Packet {
	p := nft.PacketOf(r.node, f)
	local := p.Local
	p.Local = func(a netip.Addr) bool { return local(a) || r.state.Addrs[a] }
	return p
}

// walk runs the chains of some hooks only.
func (r *Ruleset) walk(p knft.Packet, hooks ...knft.Hook) (knft.Outcome, error) {
	var some []*knft.Table
	for _, t := range r.tables {
		u := *t
		u.Chains = make(map[string]*knft.Chain, len(t.Chains))
		for name, c := range t.Chains {
			if c.Base == nil || slices.Contains(hooks, c.Base.Hook) {
				u.Chains[name] = c
			}
		}
		some = append(some, &u)
	}
	outs, err := knft.Eval(some, p)
	switch {
	case err != nil:
		return knft.Outcome{}, err
	case len(outs) != 1:
		return knft.Outcome{}, fmt.Errorf("table %s draws random numbers", tableName)
	}
	return outs[0], nil
}

// serve is what a virtual server does with a packet.
func (r *Ruleset) serve(p knft.Packet, o knft.Outcome, s *kipvs.Server) (flow.Verdict, error) {
	v := flow.Verdict{Action: flow.Forward, Targets: s.Targets(), Sticky: s.Persistence > 0, Masquerade: true, Why: fmt.Sprintf("virtual server %s, scheduler %s", s.Key, s.Scheduler)}
	if len(v.Targets) == 0 {
		return flow.Verdict{Action: flow.Refused, Why: v.Why + ": no destination takes connections"}, nil
	}
	for _, t := range v.Targets {
		if !p.FromHost && r.node.Has(t.Addr()) { // delivered here as it is
			v.Masquerade = false
			break
		}
		after := p
		after.Dst, after.First, after.FromHost = t, p.Dst, true
		out, err := r.walk(after, knft.Postrouting)
		if err != nil {
			return flow.Verdict{}, err
		}
		v.Masquerade = v.Masquerade && out.Masquerade
	}
	if o.DNAT {
		v.Why += ", for clients on this node"
	}
	return v, nil
}
