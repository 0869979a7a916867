package ebpf

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
)

// Ruleset implements proxy.Ruleset: what was rendered, or what the kernel has.
type Ruleset struct {
	node     proxy.Node
	attached []string
	maps     map[string]map[string]string
	packets  proxy.Ruleset
}

// Text implements proxy.Ruleset.
func (r *Ruleset) Text() string {
	var b strings.Builder
	if len(r.attached) > 0 {
		fmt.Fprintf(&b, "attached to the node's control group: %s\n", strings.Join(r.attached, " "))
	}
	for _, name := range planned {
		lines := make([]string, 0, len(r.maps[name]))
		for k, v := range r.maps[name] {
			lines = append(lines, text(name, k, v))
		}
		slices.Sort(lines)
		for _, l := range lines {
			fmt.Fprintf(&b, "%s %s\n", name, l)
		}
	}
	return b.String() + r.packets.Text()
}

// text is one element for people.
func text(m, k, v string) string {
	switch m {
	case services:
		return fmt.Sprintf("%s -> %s", frontOf(k), serviceOf(v))
	case slots:
		return fmt.Sprintf("%s . %d -> %s", frontOf(k), slotNumber(k), addrOf(v))
	}
	return fmt.Sprintf("%s . %s -> %s", frontOf(k), addrOf(k[frontSize:]), addrOf(v)) // members
}

// Equal reports whether two rulesets have the same programs and maps.
func (r *Ruleset) Equal(o *Ruleset) bool {
	return slices.Equal(r.attached, o.attached) && maps.EqualFunc(r.maps, o.maps, maps.Equal[map[string]string])
}

// Eval implements proxy.Ruleset.
func (r *Ruleset) Eval(f flow.Flow) flow.Verdict {
	v, done, _ := eval(r.node, r.attached, f, func(m, k string) (string, bool, error) {
		v, ok := r.maps[m][k]
		return v, ok, nil
	})
	if done {
		return v
	}
	return r.packets.Eval(f)
}

// eval is what the programs do with a connection; false when they leave it to the packets' rules.
func eval(n proxy.Node, attached []string, f flow.Flow, get func(m, k string) (string, bool, error)) (flow.Verdict, bool, error) {
	if !seen(n, attached, f) {
		return flow.Verdict{}, false, nil
	}
	at := front{addr: f.Dst, proto: f.Proto}
	raw, ok, err := get(services, string(at.append(nil)))
	if !ok || err != nil {
		return flow.Verdict{}, false, err
	}
	s := serviceOf(raw)
	if s.flags&nodeOnly != 0 && f.From != flow.FromNode {
		return flow.Verdict{}, false, nil
	}
	v := flow.Verdict{Action: flow.Forward, AtSocket: true, Sticky: s.affinity > 0, Why: fmt.Sprintf("map services: %s -> %s", at, s)}
	for i := range s.count {
		to, ok, err := get(slots, slotKey(s.list, i))
		if err != nil {
			return flow.Verdict{}, false, err
		}
		if ok {
			v.Targets = append(v.Targets, addrOf(to))
		}
	}
	v.Targets = flow.SortTargets(v.Targets)
	return v, len(v.Targets) > 0, nil
}

// seen reports whether the programs see the sender's socket: it is on this node, as far as can be told, and asks with
// connect or sendmsg.
func seen(n proxy.Node, attached []string, f flow.Flow) bool {
	hook := "connect6"
	if f.Dst.Addr().Is4() {
		hook = "connect4"
	}
	if f.Proto == flow.SCTP || !slices.Contains(attached, hook) {
		return false
	}
	if f.From == flow.FromNode {
		return true
	}
	here := func(p netip.Prefix) bool { return p.Contains(f.Src.Addr()) }
	return f.From == flow.FromPod && n.FromLocalPod(f) && (f.SrcLocal || slices.ContainsFunc(n.PodCIDRs, here))
}

// stray says in words what somebody changed between two rulesets.
func (r *Ruleset) stray(want *Ruleset) string {
	var words []string
	for _, p := range want.attached {
		if !slices.Contains(r.attached, p) {
			words = append(words, "program "+p+" is not attached")
		}
	}
	for _, op := range difference(r.maps, want.maps) {
		for _, e := range op.Puts {
			words = append(words, fmt.Sprintf("map %s lacks %s", op.Map, text(op.Map, e.Key, e.Value)))
		}
		for _, k := range op.Dels {
			words = append(words, fmt.Sprintf("map %s has %s too much", op.Map, text(op.Map, k, r.maps[op.Map][k])))
		}
	}
	slices.SortFunc(words, cmp.Compare)
	if len(words) > 5 {
		words = append(words[:5], fmt.Sprintf("and %d more", len(words)-5))
	}
	return strings.Join(words, "; ")
}
