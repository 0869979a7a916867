package iptables

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// Ruleset implements proxy.Ruleset: the tables as rendered, or as read from the kernel.
type Ruleset struct {
	tables []*kipt.Table
	node   proxy.Node

	parsed sync.Map // of at: []kipt.Rule; what Eval has read of the text so far
}

// at is a chain of a ruleset.
type at struct {
	family kipt.Family
	list
}

// Text implements proxy.Ruleset as iptables-save prints it, chains and rules of Services in the order of their letters.
func (r *Ruleset) Text() string {
	var b strings.Builder
	family := ""
	for _, t := range r.tables {
		if len(t.Chains) == 0 {
			continue
		}
		if f := t.Family.String(); f != family {
			family = f
			b.WriteString("# " + f + "\n")
		}
		chains := slices.Sorted(maps.Keys(t.Chains))
		b.WriteString("*" + t.Name + "\n")
		for _, c := range chains {
			if owned(c) {
				b.WriteString(":" + c + " - [0:0]\n")
			}
		}
		for _, c := range chains {
			b.WriteString(t.Chains[c])
		}
		b.WriteString("COMMIT\n")
	}
	return b.String()
}

// table returns one of the tables; an empty one when it is not there.
func (r *Ruleset) table(f kipt.Family, name string) *kipt.Table {
	for _, t := range r.tables {
		if t.Family == f && t.Name == name {
			return t
		}
	}
	return &kipt.Table{Family: f, Name: name}
}

// Eval implements proxy.Ruleset: it walks the flow's first packet through the rules.
func (r *Ruleset) Eval(f flow.Flow) flow.Verdict {
	fam := familyOf(f)
	return eval(r.node, f, func(table, chain string) ([]kipt.Rule, error) {
		here := at{fam, list{table, chain}}
		if rules, ok := r.parsed.Load(here); ok {
			return rules.([]kipt.Rule), nil
		}
		rules, err := parse(r.table(fam, table).Chains[chain])
		if err == nil {
			r.parsed.Store(here, rules)
		}
		return rules, err
	})
}

func familyOf(f flow.Flow) kipt.Family {
	if f.Dst.Addr().Is4() {
		return kipt.IPv4
	}
	return kipt.IPv6
}

// parse reads the rules of a chain.
func parse(body string) (rules []kipt.Rule, err error) {
	kipt.Lines(body, func(line string) {
		rule, bad := kipt.ParseRule(line)
		if err = firstOf(err, bad); bad == nil {
			rules = append(rules, rule)
		}
	})
	return rules, err
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

func eval(n proxy.Node, f flow.Flow, rules kipt.Rules) flow.Verdict {
	outs, err := kipt.Eval(rules, packet(n, f))
	if err != nil {
		return flow.Verdict{Action: flow.Dropped, Why: err.Error(),
			Findings: []flow.Finding{{Code: flow.RulesDiffer, Severity: flow.Error, Object: "chains KUBE-*", Cause: "The chains have rules that are not podway's: " + err.Error() + "."}}}
	}
	return verdict(outs)
}

func packet(n proxy.Node, f flow.Flow) kipt.Packet {
	src := f.Src
	if !src.Addr().IsValid() {
		src = netip.AddrPortFrom(netip.IPv4Unspecified(), src.Port())
		if f.Dst.Addr().Is6() {
			src = netip.AddrPortFrom(netip.IPv6Unspecified(), src.Port())
		}
	}
	fromHost := f.From == flow.FromNode
	return kipt.Packet{
		Proto: string(f.Proto), Src: src, Dst: f.Dst, FromHost: fromHost, IIF: n.Device(f),
		Local: func(a netip.Addr) bool { return n.Has(a) || fromHost && a == src.Addr() },
	}
}

// verdict sums up what may happen to a packet.
func verdict(outs []kipt.Outcome) flow.Verdict {
	v := flow.Verdict{Action: flow.Pass, Why: "no rule"}
	lost, masqueraded, remembered := 0, 0, 0
	for _, o := range outs {
		switch {
		case o.Verdict == "REJECT":
			v.Action, lost = flow.Refused, lost+1
		case o.Verdict == "DROP":
			v.Action, lost = flow.Dropped, lost+1
		case o.DNAT:
			v.Targets = append(v.Targets, o.Dst)
			masqueraded += btoi(o.Masquerade)
			remembered += btoi(o.Remembered)
		}
		if o.Why != "" {
			v.Why = o.Why
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

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
