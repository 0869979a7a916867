// Package doctor looks at a whole cluster: it asks trace for the way to every Service and Ingress, and every node how it
// is, and reports each cause once with all that it hits. It owns the choice of questions and the grouping; causes are
// trace's.
package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/ask"
)

// Report is the examination of a cluster.
type Report struct {
	SchemaVersion int      `json:"schemaVersion"`
	Predicted     bool     `json:"predicted,omitempty"` // no node was asked
	Causes        []Cause  `json:"causes"`              // errors first, then those that hit most
	Services      int      `json:"services"`            // checked
	Ingresses     int      `json:"ingresses"`
	Nodes         int      `json:"nodes"`
	Asked         int      `json:"asked"` // nodes whose agent told how it is
	NotChecked    []string `json:"notChecked,omitempty"`
	Exit          int      `json:"exit"`
}

// Cause is one finding and the ways that it breaks.
type Cause struct {
	flow.Finding
	Hits []string `json:"hits,omitempty"` // "Service shop/cart 80/TCP", "Ingress shop/front shop.example/"
}

// Options is what is known beside the objects, and how the nodes are asked.
type Options struct {
	Status         func(ctx context.Context, node string) (ask.Status, error)                       // how an agent is; nil = no node is asked
	Sockets        func(ctx context.Context, node string, podUIDs []string) (ask.PodSockets, error) // what Pods listen on; nil = it is not looked at
	Missing        []string                                                                         // kinds of objects that could not be listed, and why
	Pods, Services []netip.Prefix                                                                   // ranges of the cluster, as far as they are known
}

// Examine asks for the way to everything, as declared, and for the state of every node.
func Examine(ctx context.Context, s *model.Snapshot, v trace.View, o Options) Report {
	e := &examiner{ctx: ctx, s: s, x: trace.NewIndex(s).PodRanges(o.Pods), v: v, o: o, r: Report{SchemaVersion: trace.SchemaVersion, Predicted: o.Status == nil}}
	for _, svc := range model.Sorted(s.Services, func(a, b *model.Service) int { return a.Name.Compare(b.Name) }) {
		e.service(svc)
	}
	for _, ing := range model.Sorted(s.Ingresses, func(a, b *model.Ingress) int { return a.Name.Compare(b.Name) }) {
		e.ingress(ing)
	}
	e.routes()
	e.pools()
	e.nodes()
	for _, m := range o.Missing {
		e.notChecked("objects that could not be listed: " + m)
	}
	e.conclude()
	return e.r
}

type examiner struct {
	ctx context.Context
	s   *model.Snapshot
	x   *trace.Index
	v   trace.View
	o   Options
	r   Report

	walks    int        // questions asked
	expected []expected // who should listen, by the ways that are whole
}

// service asks for the way to each port, from a node, and from outside when there is an address for that.
func (e *examiner) service(svc *model.Service) {
	if svc.Deleting || svc.Type == model.ExternalName || svc.ProxyName != "" || len(svc.Ports) == 0 {
		return
	}
	walks := e.walks
	defer func() {
		if e.walks > walks {
			e.r.Services++
		}
	}()
	for _, f := range e.x.Strays(svc) {
		e.hit(f, "Service "+svc.Name.String())
	}
	for _, p := range svc.Ports {
		what := fmt.Sprintf("Service %s %d/%s", svc.Name, p.Port, p.Protocol)
		q := trace.Question{Proto: flow.Proto(strings.ToLower(string(p.Protocol))), Namespace: svc.Name.Namespace,
			Target: fmt.Sprintf("svc/%s/%s:%d", svc.Name.Namespace, svc.Name.Name, p.Port)}
		if svc.HasClusterIP() || svc.Headless && len(svc.Selector) > 0 {
			if q.From, q.Sender = flow.FromNode, e.clientOf(svc); q.Sender != "" {
				e.walk(what, q)
			} else {
				e.notChecked("the ways to Services: there is no node that is ready to ask from")
			}
		}
		if svc.Type == model.LoadBalancer {
			q.From, q.Sender = flow.FromOutside, ""
			if len(svc.SourceRanges) > 0 {
				q.Addr = svc.SourceRanges[0].Addr()
			}
			e.walk(what+" from outside", q)
		}
	}
}

// clientOf is a ready node from which the Service should work: with internalTrafficPolicy Local, one that has an endpoint.
func (e *examiner) clientOf(svc *model.Service) string {
	best := ""
	for n := range e.s.Nodes.Values() {
		if n.Ready && (best == "" || n.Name < best) {
			best = n.Name
		}
	}
	if svc.InternalPolicyLocal {
		found := ""
		e.s.Backends(svc.Name).Each(func(_ *model.EndpointSlice, ep *model.Endpoint) {
			if ep.Ready && (found == "" || ep.Node < found) {
				found = ep.Node
			}
		})
		if found != "" {
			return found
		}
	}
	return best
}

func (e *examiner) walk(what string, q trace.Question) {
	q.Limit = 1 // one target stands for all: what differs by node is found on the node
	e.walks++
	p := e.x.Walk(e.ctx, q, e.v)
	if p.Err != nil {
		e.notChecked(what + ": " + p.Err.Error())
		return
	}
	cause, others := e.x.Explain(&p)
	if cause != nil {
		e.hit(e.x.Root(*cause), what)
	}
	for _, f := range others {
		f = e.x.Root(f)
		if f.Severity != flow.Error || !strings.HasPrefix(string(f.Code), "PW-12") { // the Service has a question of its own
			e.hit(f, what)
		}
	}
	if cause == nil {
		e.expect(&p, what)
	}
}

func (e *examiner) notChecked(s string) {
	if !slices.Contains(e.r.NotChecked, s) {
		e.r.NotChecked = append(e.r.NotChecked, s)
	}
}

// conclude orders the causes and sets the exit code.
func (e *examiner) conclude() {
	order := map[flow.Severity]int{flow.Error: 0, flow.Warning: 1, flow.Info: 2}
	slices.SortStableFunc(e.r.Causes, func(a, b Cause) int {
		if d := order[a.Severity] - order[b.Severity]; d != 0 {
			return d
		}
		return len(b.Hits) - len(a.Hits)
	})
	switch {
	case len(e.r.Causes) > 0 && e.r.Causes[0].Severity == flow.Error:
		e.r.Exit = trace.ExitBroken
	case (!e.r.Predicted || len(e.o.Missing) > 0) && len(e.r.NotChecked) > 0:
		e.r.Exit = trace.ExitUnknown
	}
}
