package scenario

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy/modes"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
)

// Views makes the view of one layer for a state.
type Views func(*State) trace.View

// ModelWorld makes worlds of level model: each question is walked through what the hops declare.
func ModelWorld(context.Context) (World, error) {
	return &walkWorld{views: func(st *State) trace.View { return Declared(st, "") }}, nil
}

// RulesWorld makes worlds of level rules: each question is walked through what the hops would write, the service proxy in
// one of its modes ("" = the default). An unknown mode is an error.
func RulesWorld(proxyMode string) (Maker, error) {
	proxyMode = cmp.Or(proxyMode, defaultMode)
	if modes.Backend(proxyMode) == nil {
		return nil, fmt.Errorf("scenario: level rules knows no proxy mode %q", proxyMode)
	}
	return func(context.Context) (World, error) {
		return &walkWorld{views: NewRendered(proxyMode), mode: proxyMode}, nil
	}, nil
}

type walkWorld struct {
	views Views
	view  trace.View
	index *trace.Index
	mode  string
}

// ProxyMode is the mode of the service proxy, "" at level model.
func (w *walkWorld) ProxyMode() string { return w.mode }

func (w *walkWorld) Close() error { return nil }

func (w *walkWorld) Step(_ context.Context, f *File, i int) error {
	st := f.Steps[i].State
	w.view, w.index = w.views(st), trace.NewIndex(st.Snapshot)
	return nil
}

func (w *walkWorld) Ask(ctx context.Context, st *State, a Ask, _ Outcome) Outcome {
	switch a.Kind {
	case Slices:
		return st.slicesOf(a.Service)
	case Announce:
		return announced(ctx, w.view, st, a.Addr)
	}
	p := w.index.Walk(ctx, a.Question, w.view)
	if p.Err != nil {
		return Outcome{Result: "error", Detail: p.Err.Error()}
	}
	switch a.Kind {
	case Dig:
		return digged(p)
	case Trace:
		return broken(w.index, &p)
	}
	return st.walked(p, a.Kind == Get)
}

// slicesOf lists the endpoints of a Service, each address and port once.
func (s *State) slicesOf(svc model.Name) Outcome {
	o := Outcome{Result: "slices"}
	s.Snapshot.Backends(svc).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		x := Endpoint{Addr: e.Addr, States: []string{"not-ready"}}
		if e.Ready {
			x.States = []string{"ready"}
		}
		if e.Serving && !e.Ready {
			x.States = append(x.States, "serving")
		}
		if e.Terminating {
			x.States = append(x.States, "terminating")
		}
		slices.Sort(x.States)
		x.Hints = hintWords(e)
		for _, p := range sl.Ports {
			x.Port = p.Port
			o.Slices = append(o.Slices, x)
		}
		if len(sl.Ports) == 0 {
			o.Slices = append(o.Slices, x)
		}
	})
	slices.SortFunc(o.Slices, Endpoint.compare)
	return o
}

func hintWords(e *model.Endpoint) (out []string) {
	for _, z := range e.ForZones {
		out = append(out, forZone+z)
	}
	for _, n := range e.ForNodes {
		out = append(out, forNode+n)
	}
	if len(out) == 0 {
		return []string{noHints}
	}
	slices.Sort(out)
	return out
}

// announced asks every node who answers for the address; they must agree.
func announced(ctx context.Context, v trace.View, st *State, a netip.Addr) Outcome {
	o := Outcome{Result: "nobody"}
	for i, n := range st.Nodes {
		f := flow.Flow{From: flow.FromOutside, Node: n, Proto: flow.TCP, Dst: netip.AddrPortFrom(a, 0)}
		got, err := v.Verdict(ctx, trace.HopAnnounce, n, f)
		if err != nil {
			return Outcome{Result: "error", Detail: err.Error()}
		}
		this := Outcome{Result: "nobody"}
		if got.Node != "" {
			this = Outcome{Result: "node", Node: got.Node, Detail: got.Why}
		}
		if i > 0 && (this.Node != o.Node) {
			return Outcome{Result: "error", Detail: fmt.Sprintf("%s says %s, %s says %s", st.Nodes[0], o.words(), n, this.words())}
		}
		o = this
	}
	return o
}

func digged(p trace.Path) Outcome {
	for _, st := range p.Steps {
		if st.State == trace.Unknown {
			return unknown(st)
		}
	}
	return answerOf(p.Outcome.Rcode, p.Outcome.Records)
}

func answerOf(rcode string, records []string) Outcome {
	switch {
	case rcode != "NOERROR":
		return Outcome{Result: rcode}
	case len(records) == 0:
		return Outcome{Result: "NODATA"}
	}
	o := Outcome{Result: "answer"}
	for _, r := range records {
		typ, data, _ := strings.Cut(r, " ")
		o.Records = append(o.Records, record(typ, data))
	}
	slices.Sort(o.Records)
	return o
}

func unknown(st trace.Step) Outcome {
	return Outcome{Result: "unknown", Detail: fmt.Sprintf("hop %s on node %s: %v", st.Hop, st.Node, st.Err)}
}

// broken is the first broken step with the code of its cause.
func broken(x *trace.Index, p *trace.Path) Outcome {
	st := p.BrokenStep()
	if st == nil {
		for _, s := range p.Steps {
			if s.State == trace.Unknown {
				return unknown(s)
			}
		}
		return Outcome{Result: "ok"}
	}
	o := Outcome{Result: "broken", Hop: st.Hop, Detail: st.Verdict.Why}
	if cause, _ := x.Explain(p); cause != nil {
		o.Code, o.Detail = cause.Code, cause.Cause
	}
	return o
}

// walked reads the end of a path as a client would see it.
func (s *State) walked(p trace.Path, http bool) Outcome {
	if b := p.BrokenStep(); b != nil {
		return failedAt(b, http)
	}
	o := Outcome{Result: reached}
	var from []string
	left := "" // the node with whose address the request leaves the cluster
	for _, st := range p.Steps {
		switch {
		case st.State == trace.Unknown:
			return unknown(st)
		case st.Hop == trace.HopProxy && st.Verdict.Sticky:
			o.Sticky = true
		case st.Hop == trace.HopPodnet && st.Verdict.Masquerade:
			left = "node " + st.Node
		case st.Hop == trace.HopProcess && ends(p, st):
			o.Pods = append(o.Pods, s.end(st))
			if left != "" {
				from = append(from, left)
			} else if st.Flow.Src.IsValid() {
				from = append(from, s.owner(st.Flow.Src.Addr()))
			}
		}
	}
	slices.Sort(o.Pods)
	o.Pods = slices.Compact(o.Pods)
	slices.Sort(from)
	o.From = strings.Join(slices.Compact(from), " or ")
	switch {
	case p.Outcome.Status != 0:
		return Outcome{Result: "status", Status: p.Outcome.Status}
	case slices.Contains(o.Pods, nobody):
		return Outcome{Result: dropped, Detail: "nobody has the address"}
	case http:
		o.Result, o.Status = "status", 200
	}
	return o
}

// ends reports whether a process step is where the request ends, and not the ingress proxy on its way.
func ends(p trace.Path, st trace.Step) bool {
	return len(st.Pods) == 0 || len(p.Outcome.Pods) == 0 || slices.Contains(p.Outcome.Pods, st.Pods[0].String())
}

const nobody = "nobody"

// end names the process a step stands for.
func (s *State) end(st trace.Step) string {
	if len(st.Pods) > 0 {
		return st.Pods[0].String()
	}
	a := st.Flow.Dst.Addr()
	if o := s.owner(a); !strings.HasPrefix(o, "outside ") {
		return o
	}
	if isOutside(a) {
		return "outside"
	}
	return nobody
}

// isOutside reports whether the address is one of the outside host's in every world.
func isOutside(a netip.Addr) bool {
	for _, p := range []string{"203.0.113.0/24", "fd00:203::/64"} {
		if netip.MustParsePrefix(p).Contains(a) {
			return true
		}
	}
	return false
}

func failedAt(b *trace.Step, http bool) Outcome {
	o := Outcome{Detail: fmt.Sprintf("at %s: %s", b.Hop, b.Verdict.Why)}
	switch v := b.Verdict; {
	case v.Action == flow.Refused:
		o.Result = refused
	case v.Status != 0 && http:
		o.Result, o.Status = "status", v.Status
	case v.Action == flow.Answer && v.Rcode != "":
		o.Result = answerOf(v.Rcode, v.Records).Result
	default:
		o.Result = dropped
	}
	return o
}

// lives reports whether a Pod has processes and an address.
func lives(p *model.Pod) bool { return p != nil && !p.Terminal() && len(p.Addrs) > 0 }
