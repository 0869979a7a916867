package nft

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
)

// Ruleset implements proxy.Ruleset: the tables as rendered, or as read from the kernel.
type Ruleset struct {
	tables []*knft.Table
	node   proxy.Node
}

// Text implements proxy.Ruleset in the syntax of the nft command.
func (r *Ruleset) Text() string {
	var b strings.Builder
	for _, t := range r.tables {
		b.WriteString(t.Text())
	}
	return b.String()
}

// Equal reports whether two rulesets are the same, element by element.
func (r *Ruleset) Equal(o *Ruleset) bool {
	return slices.EqualFunc(r.tables, o.tables, (*knft.Table).Equal)
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

// Eval implements proxy.Ruleset: it walks the flow's first packet through the rules.
func (r *Ruleset) Eval(f flow.Flow) flow.Verdict {
	outs, err := knft.Eval(r.tables, r.packet(f))
	if err != nil {
		return flow.Verdict{Action: flow.Dropped, Why: err.Error(),
			Findings: []flow.Finding{{Code: flow.RulesDiffer, Severity: flow.Error, Object: "table " + tableName, Cause: "The table has rules that are not podway's: " + err.Error() + "."}}}
	}
	return verdict(outs)
}

func (r *Ruleset) packet(f flow.Flow) knft.Packet { return PacketOf(r.node, f) }

// PacketOf is a flow's first packet as a node's tables see it. Without a source address it comes from anywhere.
func PacketOf(n proxy.Node, f flow.Flow) knft.Packet {
	src := f.Src
	if !src.Addr().IsValid() {
		src = netip.AddrPortFrom(netip.IPv4Unspecified(), src.Port())
		if f.Dst.Addr().Is6() {
			src = netip.AddrPortFrom(netip.IPv6Unspecified(), src.Port())
		}
	}
	fromHost := f.From == flow.FromNode
	return knft.Packet{
		Proto: f.Proto.Number(), Src: src, Dst: f.Dst, FromHost: fromHost, IIF: n.Device(f),
		Local: func(a netip.Addr) bool { return n.Has(a) || fromHost && a == src.Addr() },
	}
}

// verdict sums up what may happen to a packet.
func verdict(outs []knft.Outcome) flow.Verdict {
	v := flow.Verdict{Action: flow.Pass, Why: "no rule"}
	lost, masqueraded, remembered := 0, 0, 0
	for _, o := range outs {
		switch {
		case o.Rejected:
			v.Action, lost = flow.Refused, lost+1
		case o.Verdict == knft.Drop:
			v.Action, lost = flow.Dropped, lost+1
		case o.DNAT:
			v.Targets = append(v.Targets, o.Dst)
			masqueraded += btoi(o.Masquerade)
			remembered += btoi(o.Remembered)
		}
		if len(o.Path) > 0 {
			v.Why = decisive(o.Path)
		}
	}
	if n := len(v.Targets); n > 0 {
		v.Action, v.Masquerade, v.Sticky = flow.Forward, masqueraded == n, remembered == n
		if lost > 0 {
			v.Why = fmt.Sprintf("%d of %d choices lead nowhere; %s", lost, len(outs), v.Why)
		}
	}
	v.Targets = flow.SortTargets(v.Targets)
	return v
}

// decisive is the rule to show: the one that translated, rejected or dropped, not those around it.
func decisive(path []string) string {
	for _, p := range path {
		if strings.Contains(p, "dnat") || strings.HasSuffix(p, "drop") || strings.Contains(p, "reject with") {
			return p
		}
	}
	return path[len(path)-1]
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
