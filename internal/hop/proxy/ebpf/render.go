package ebpf

import (
	"maps"
	"slices"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/bpf"
)

// Render returns what the plan wants: all programs attached, the maps' contents, and the rules for packets.
func Render(p *proxy.Plan, packets proxy.Ruleset) *Ruleset {
	return &Ruleset{node: p.Node, attached: programs, maps: collect(p).maps, packets: packets}
}

// collect gathers the elements of all Services.
func collect(p *proxy.Plan) *elements {
	e := newElements(p, p.Services.Len())
	for s := range p.Services.Values() {
		e.add(s)
	}
	return e
}

// difference is what makes one content of the maps into another, in an order in which every connection in between finds an
// endpoint of the old list or of the new one: lists grow before they are used and shrink afterwards.
func difference(have, want map[string]map[string]string) []bpf.Op {
	var grow, shrink []bpf.Op
	for _, name := range planned {
		puts := make([]bpf.Entry, 0, max(0, len(want[name])-len(have[name])))
		var dels []string
		for k, v := range want[name] {
			if old, ok := have[name][k]; !ok || old != v {
				puts = append(puts, bpf.Entry{Key: k, Value: v})
			}
		}
		for k := range have[name] {
			if _, ok := want[name][k]; !ok {
				dels = append(dels, k)
			}
		}
		if len(puts) > 0 {
			grow = append(grow, bpf.Op{Map: name, Puts: puts})
		}
		if len(dels) > 0 {
			shrink = append(shrink, bpf.Op{Map: name, Dels: dels})
		}
	}
	slices.Reverse(shrink)
	return append(grow, shrink...)
}

func count(ops []bpf.Op) (n int) {
	for _, op := range ops {
		n += len(op.Puts) + len(op.Dels)
	}
	return n
}

func sizes(e map[string]map[string]string) map[string]int {
	out := map[string]int{}
	for name := range maps.Keys(e) {
		out[name] = len(e[name])
	}
	return out
}
