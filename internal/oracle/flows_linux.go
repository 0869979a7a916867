package oracle

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/nettest"
)

// longFlows are UDP clients that keep their source port from step to step, as long-lived ones do: for them the kernel's
// memory of earlier steps matters.
type longFlows struct {
	ports  map[string]uint16 // question -> the first of its source ports, the same on both sides
	probes []Probe
	before [2]map[string][]string // side -> question -> who answered each flow last, "" nobody
}

const (
	flowsEach = 4
	firstPort = 20000 // below those that the kernel gives out by itself
	mostLong  = 2400
)

func newLongFlows() *longFlows {
	return &longFlows{ports: map[string]uint16{}, before: [2]map[string][]string{{}, {}}}
}

// follow takes up the UDP questions that are new. Those of earlier steps stay, also when their Service is gone.
func (l *longFlows) follow(probes []Probe) {
	for _, p := range probes {
		if k := p.String(); p.Proto == flow.UDP && l.ports[k] == 0 && len(l.probes) < mostLong {
			l.ports[k] = uint16(firstPort + flowsEach*len(l.probes))
			l.probes = append(l.probes, p)
		}
	}
}

// ask sends on every flow. The result says of each question, for each Pod that had answered a flow before, what became of
// such flows.
func (l *longFlows) ask(ctx context.Context, side int, w *world, probes []Probe, patience time.Duration) (map[string]map[string]string, error) {
	var all []*asked
	for i, p := range probes {
		for k := range flowsEach {
			d, err := w.dial(p, 0, patience)
			if err != nil {
				return nil, err
			}
			d.SrcPort = l.ports[p.String()] + uint16(k)
			all = append(all, &asked{probe: i, d: d})
		}
	}
	w.send(ctx, probes, all)
	out := map[string]map[string]string{}
	for i, a := range all {
		k := probes[a.probe].String()
		was := ""
		if b := l.before[side][k]; b != nil {
			was = b[i%flowsEach]
		}
		if out[k] == nil {
			out[k] = map[string]string{}
		}
		became := string(a.r.Result)
		if a.r.Result == nettest.Reached && was != "" {
			became = map[bool]string{true: "stays", false: "moves to another Pod"}[a.r.Who == was]
		}
		if have := out[k][was]; have != "" && have != became {
			became = "some " + min(have, became) + ", some " + max(have, became)
		}
		out[k][was] = became
	}
	for i, a := range all {
		k := probes[a.probe].String()
		if l.before[side][k] == nil {
			l.before[side][k] = make([]string, flowsEach)
		}
		l.before[side][k][i%flowsEach] = a.r.Who
	}
	return out, nil
}

// connection is what a node knows a UDP connection by.
type connection struct {
	node     string
	src, dst netip.AddrPort
}

// tracked lists the UDP connections that the nodes remember.
func (w *world) tracked(ctx context.Context) (map[connection]bool, error) {
	out := map[connection]bool{}
	for n, c := range w.tables {
		es, err := c.List(ctx, conntrack.UDP)
		if err != nil {
			return nil, err
		}
		for _, e := range es {
			out[connection{n, e.Src, e.Dst}] = true
		}
	}
	return out, nil
}

// forget deletes every UDP connection, so that a case begins without a past.
func (w *world) forget(ctx context.Context) error {
	for _, c := range w.tables {
		if _, err := c.Delete(ctx, conntrack.UDP, func(conntrack.Entry) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}

// kept says of each kind of long-lived connection whether the nodes still remember it. One that nobody answered may never
// have been remembered; what becomes of such clients ask sees.
func (l *longFlows) kept(side int, w *world, have map[connection]bool) map[Tracked]string {
	out := map[Tracked]string{}
	for _, p := range l.probes {
		k := p.String()
		src := w.source(p)
		for i, who := range l.before[side][k] {
			if who == "" {
				continue
			}
			for _, node := range slices.Compact([]string{p.Client.Node, cmp.Or(p.At, p.Client.Node)}) {
				t := Tracked{Node: node, From: p.From, Dst: p.Addr, Answers: who}
				what := "deleted"
				if have[connection{node, netip.AddrPortFrom(src, l.ports[k]+uint16(i)), p.Addr}] {
					what = "kept"
				}
				if before := out[t]; before != "" && before != what {
					what = "some kept, some deleted"
				}
				out[t] = what
			}
		}
	}
	return out
}

// source is the address that a client's long-lived connections come from.
func (w *world) source(p Probe) netip.Addr {
	return (&asker{st: w.st}).source(p.Client, p.Addr.Addr().Is4())
}

// unlike are the keys that both maps have with different values.
func unlike[K comparable](a, b map[K]string) (out []K) {
	for k, v := range a {
		if w, ok := b[k]; ok && v != w {
			out = append(out, k)
		}
	}
	slices.SortFunc(out, func(x, y K) int { return strings.Compare(fmt.Sprint(x), fmt.Sprint(y)) })
	return out
}
