// Package doctor looks at a whole cluster: it asks trace for the way to every Service and Ingress, and every node how it
// is, and reports each cause once with all that it hits. It owns the choice of questions and the grouping; causes are
// trace's.
package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/routes"
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
	NotChecked    []string `json:"notChecked,omitempty"`
	Exit          int      `json:"exit"`
}

// Cause is one finding and the ways that it breaks.
type Cause struct {
	flow.Finding
	Hits []string `json:"hits,omitempty"` // "Service shop/cart 80/TCP", "Ingress shop/front shop.example/"
}

// Status asks a node's agent how it is; nil = the nodes are not asked.
type Status func(ctx context.Context, node string) (ask.Status, error)

// Examine asks for the way to everything, as declared, and for the state of every node.
func Examine(ctx context.Context, s *model.Snapshot, v trace.View, status Status) Report {
	e := &examiner{ctx: ctx, s: s, x: trace.NewIndex(s), v: v, r: Report{SchemaVersion: trace.SchemaVersion, Predicted: status == nil}}
	for _, svc := range model.Sorted(s.Services, func(a, b *model.Service) int { return a.Name.Compare(b.Name) }) {
		e.service(svc)
	}
	for _, ing := range model.Sorted(s.Ingresses, func(a, b *model.Ingress) int { return a.Name.Compare(b.Name) }) {
		e.ingress(ing)
	}
	e.nodes(status)
	e.conclude()
	return e.r
}

type examiner struct {
	ctx context.Context
	s   *model.Snapshot
	x   *trace.Index
	v   trace.View
	r   Report
}

// service asks for the way to each port, from a node, and from outside when there is an address for that.
func (e *examiner) service(svc *model.Service) {
	if svc.Deleting || svc.Type == model.ExternalName || svc.ProxyName != "" || len(svc.Ports) == 0 {
		return
	}
	e.r.Services++
	for _, p := range svc.Ports {
		what := fmt.Sprintf("Service %s %d/%s", svc.Name, p.Port, p.Protocol)
		q := trace.Question{Proto: flow.Proto(strings.ToLower(string(p.Protocol))), Namespace: svc.Name.Namespace,
			Target: fmt.Sprintf("svc/%s/%s:%d", svc.Name.Namespace, svc.Name.Name, p.Port)}
		if svc.HasClusterIP() {
			if q.From, q.Sender = flow.FromNode, e.clientOf(svc); q.Sender != "" {
				e.walk(what, q)
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

// ingress asks for each host and path from outside, unless the Ingress is another controller's.
func (e *examiner) ingress(ing *model.Ingress) {
	if (routes.Config{}).Standing(e.s, ing) == routes.Foreign {
		e.foreign(ing)
		return
	}
	e.r.Ingresses++
	secure := map[string]bool{}
	for _, t := range ing.TLS {
		for _, h := range t.Hosts {
			secure[h] = true
		}
	}
	for _, rule := range ing.Rules {
		host := rule.Host
		if host == "" {
			continue // reached by any name: its backends are checked as Services
		}
		scheme := "http"
		if secure[host] {
			scheme = "https"
		}
		host = strings.Replace(host, "*", "any", 1)
		for _, p := range rule.Paths {
			path := p.Path
			if !strings.HasPrefix(path, "/") {
				path = "/"
			}
			e.walk(fmt.Sprintf("Ingress %s %s%s", ing.Name, rule.Host, path),
				trace.Question{From: flow.FromOutside, Proto: flow.TCP, Namespace: ing.Name.Namespace, Target: scheme + "://" + host + path})
		}
	}
}

// foreign says whose an Ingress is that podway does not serve.
func (e *examiner) foreign(ing *model.Ingress) {
	why := "its class " + ing.Class + " is another controller's"
	switch c := e.s.Classes.At(ing.Class); {
	case ing.Class == "":
		why = "it names no class, and the default one is another controller's"
	case c != nil:
		why = fmt.Sprintf("its class %s is that of controller %s", ing.Class, c.Controller)
	}
	e.notChecked(fmt.Sprintf("Ingress %s: %s", ing.Name, why))
}

func (e *examiner) walk(what string, q trace.Question) {
	q.Limit = 1 // one target stands for all: what differs by node is found on the node
	p := e.x.Walk(e.ctx, q, e.v)
	if p.Err != nil {
		e.r.NotChecked = append(e.r.NotChecked, what+": "+p.Err.Error())
		return
	}
	cause, others := e.x.Explain(&p)
	if cause != nil {
		e.hit(*cause, what)
	}
	for _, f := range others {
		if f.Severity != flow.Error || !strings.HasPrefix(string(f.Code), "PW-12") { // the Service has a question of its own
			e.hit(f, what)
		}
	}
}

// hit notes a finding, once for each cause.
func (e *examiner) hit(f flow.Finding, what string) {
	for i := range e.r.Causes {
		if c := &e.r.Causes[i]; c.Code == f.Code && c.Object == f.Object {
			if what != "" && !slices.Contains(c.Hits, what) {
				c.Hits = append(c.Hits, what)
			}
			return
		}
	}
	c := Cause{Finding: f}
	if what != "" {
		c.Hits = []string{what}
	}
	e.r.Causes = append(e.r.Causes, c)
}

// nodes asks every node how it is.
func (e *examiner) nodes(status Status) {
	all := model.Sorted(e.s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) })
	e.r.Nodes = len(all)
	for _, n := range all {
		if !n.Ready {
			e.hit(flow.Finding{Code: flow.NodeNotReady, Severity: flow.Warning, Object: "node " + n.Name, Cause: "node " + n.Name + " is not ready",
				Fix: "kubectl describe node " + n.Name}, "")
		}
	}
	if status == nil {
		return
	}
	states, errs := make([]ask.Status, len(all)), make([]error, len(all))
	var wait sync.WaitGroup
	gate := make(chan struct{}, 16)
	for i, n := range all {
		wait.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			states[i], errs[i] = status(e.ctx, n.Name)
		})
	}
	wait.Wait()
	for i, n := range all {
		e.node(n, states[i], errs[i])
	}
}

func (e *examiner) node(n *model.Node, st ask.Status, err error) {
	object := "node " + n.Name
	switch {
	case errors.Is(err, trace.ErrNotChecked):
		e.notChecked("the nodes' live state: podway-node is not installed in this cluster")
	case err != nil:
		e.hit(flow.Finding{Code: flow.AgentDown, Severity: flow.Warning, Object: object, Cause: fmt.Sprintf("the live state of %s could not be read: %v", object, err),
			Fix: "kubectl -n kube-system get pods -o wide -l app.kubernetes.io/name=podway-node"}, "")
		e.notChecked("the live state of " + object)
	default:
		for _, f := range trace.NodeFindings(n.Name, &st) {
			e.hit(f, "")
		}
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
	case !e.r.Predicted && len(e.r.NotChecked) > 0:
		e.r.Exit = trace.ExitUnknown
	}
}
