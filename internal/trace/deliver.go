package trace

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// class is the targets that lie behind the same node, which the pod network treats alike.
type class struct {
	node    string
	targets []netip.AddrPort
	pods    []model.Name
}

// classes groups targets by the node of their Pod, in the order of the nodes' names.
func (w *walker) classes(targets []netip.AddrPort, of model.Name) []class {
	byNode := map[string]*class{}
	var order []string
	for _, t := range targets {
		node := ""
		p := w.pod(t, of)
		if p != nil {
			node = p.Node
		} else if e := w.endpoint(t, of); e != nil {
			node = e.Node
		}
		c := byNode[node]
		if c == nil {
			c = &class{node: node}
			byNode[node] = c
			order = append(order, node)
		}
		c.targets = append(c.targets, t)
		if p != nil {
			c.pods = append(c.pods, p.Name)
		}
	}
	slices.Sort(order)
	out := make([]class, 0, len(order))
	for _, n := range order {
		out = append(out, *byNode[n])
	}
	return out
}

// limited keeps the first classes and says what was left out.
func (w *walker) limited(all []class) []class {
	n := w.q.Limit
	if n <= 0 || len(all) <= n {
		return all
	}
	w.skip("%d more nodes with targets like these", len(all)-n)
	return all[:n]
}

func (w *walker) skip(format string, args ...any) {
	if s := fmt.Sprintf(format, args...); !slices.Contains(w.path.NotChecked, s) {
		w.path.NotChecked = append(w.path.NotChecked, s)
	}
}

// deliver follows the targets that a proxy (of the Service of) or a name gave, over the pod network.
func (w *walker) deliver(f flow.Flow, targets []netip.AddrPort, of model.Name) {
	if len(targets) == 0 {
		return
	}
	all := w.classes(targets, of)
	if w.http != nil && w.toIngress(all) {
		for _, c := range w.limited(all) {
			w.network(f, c)
			w.process(c.targets, f, of)
			f.Dst = c.targets[0]
			w.ingress(c.node, f, c.pods)
		}
		return
	}
	for i, c := range all {
		if w.q.Limit <= 0 || i < w.q.Limit {
			w.network(f, c)
			w.process(c.targets, f, of)
		}
		w.arrive(c)
	}
	w.limited(all)
}

// network asks the pod network of the node that sends, and of the one that receives.
func (w *walker) network(f flow.Flow, c class) {
	f.Dst, f.DstLocal = c.targets[0], false
	w.ask(HopPodnet, f.Node, f, nil)
	w.last().Pods = c.pods
	if c.node != "" && c.node != f.Node && len(c.pods) > 0 {
		f.Node = c.node
		w.ask(HopPodnet, f.Node, f, nil)
		w.last().Pods = c.pods
	}
}

// process is the last step of each class: does the Pod exist, and is it up? Whether something listens is for who can look.
func (w *walker) process(targets []netip.AddrPort, f flow.Flow, of model.Name) {
	for _, t := range targets {
		f.Dst = t
		st := Step{Hop: HopProcess, Flow: f, Verdict: flow.Verdict{Action: flow.Pass}, Service: of}
		p, e := w.pod(t, of), w.endpoint(t, of)
		switch {
		case p != nil:
			st.Node, st.Pods = p.Node, []model.Name{p.Name}
			st.Detail = "Pod " + p.Name.String() + " at " + t.String()
			st.Findings = w.nodeFindings(p)
		case e != nil && e.Pod.Name != "" && w.s.Pods.Len() == 0:
			st.Node = e.Node
			st.Detail = "Pod " + e.Pod.String() + " at " + t.String()
			st.Unchecked = "Pod " + e.Pod.String() + ": no Pod is known here"
		case e != nil && e.Pod.Name != "":
			st.Node = e.Node
			st.Findings = []flow.Finding{w.milder(podGone(e, of), of)}
		case w.nodes[t.Addr()] != nil:
			w.ofNode(w.nodes[t.Addr()], f)
			w.last().Service = of
			continue
		case w.podRange(t.Addr()) != "":
			st.Detail = t.String() + " is the address of no Pod"
			st.Findings = []flow.Finding{w.milder(w.nobodys(t.Addr(), of), of)}
		default:
			st.Detail = t.String() + " is no Pod of this cluster"
			st.Unchecked = "whether " + t.String() + " answers, which is no Pod of this cluster (--probe asks it)"
		}
		st.Flow.Node = st.Node
		w.add(st)
	}
}

// arrive puts the class's targets into the outcome.
func (w *walker) arrive(c class) {
	o := Outcome{Action: flow.Forward, Targets: c.targets}
	if len(c.pods) == 0 {
		o.Action = flow.Pass
	}
	for _, p := range c.pods {
		o.Pods = append(o.Pods, p.String())
	}
	w.end(o)
}

// nodeFindings says when the Pod's node has stopped reporting.
func (w *walker) nodeFindings(p *model.Pod) []flow.Finding {
	n := w.s.Nodes.At(p.Node)
	if n == nil || n.Ready {
		return nil
	}
	return []flow.Finding{{Code: flow.NodeNotReady, Severity: flow.Warning, Object: "node " + n.Name,
		Cause: fmt.Sprintf("node %s of Pod %s is not ready", n.Name, p.Name), Fix: "kubectl describe node " + n.Name}}
}

func podGone(e *model.Endpoint, of model.Name) flow.Finding {
	return flow.Finding{Code: flow.PodGone, Severity: flow.Error, Object: "Service " + of.String(),
		Cause: fmt.Sprintf("the endpoint %s names Pod %s, which does not exist", e.Addr, e.Pod),
		Fix:   "kubectl get endpointslices -n " + of.Namespace + " -l kubernetes.io/service-name=" + of.Name}
}

// ingressOnly reports whether the question is HTTP from outside by a name while nobody knows the ingress's address: the
// way then starts at the ingress itself.
func (w *walker) ingressOnly(f flow.Flow) bool {
	return w.http != nil && f.From == flow.FromOutside && !f.Dst.Addr().IsValid()
}

// toIngress reports whether the targets are Pods of the ingress proxy.
func (w *walker) toIngress(all []class) bool {
	for _, c := range all {
		for _, name := range c.pods {
			if p := w.s.Pods.At(name); p != nil && IsIngressPod(p) {
				return true
			}
		}
	}
	return false
}

// IsIngressPod tells a Pod of podway's ingress proxy.
func IsIngressPod(p *model.Pod) bool { return isPodway(p, "podway-ingress") }

// IsNodePod tells a Pod of podway's node agent.
func IsNodePod(p *model.Pod) bool { return isPodway(p, "podway-node") }

// isPodway tells podway's own Pods by a label, whichever of the usual keys holds it.
func isPodway(p *model.Pod, name string) bool {
	for _, key := range []string{"app.kubernetes.io/name", "app.kubernetes.io/component", "app", "k8s-app"} {
		if p.Labels[key] == name {
			return true
		}
	}
	return false
}

// ingress asks the ingress proxy on the node and follows the new connection that it makes to an endpoint.
func (w *walker) ingress(node string, f flow.Flow, pods []model.Name) {
	if node == "" {
		if n := w.readyNode(); n != nil {
			node = n.Name
		}
	}
	f.Node, f.HTTP = node, w.http
	st := w.ask(HopIngress, node, f, nil)
	w.last().Pods = pods
	v := st.Verdict
	svc, port := w.ingressBackend(w.http)
	w.last().Service = nameOf(svc)
	next := flow.Flow{From: flow.FromNode, Sender: node, Node: node, Proto: flow.TCP}
	if len(pods) > 0 {
		next.From, next.Sender = flow.FromPod, pods[0].String()
		if p := w.s.Pods.At(pods[0]); p != nil && p.HostNetwork {
			next.From, next.Sender = flow.FromNode, node
		}
	}
	switch {
	case v.Action == flow.Forward && len(v.Targets) > 0:
		next.Src = w.source(next, v.Targets[0].Addr().Is4())
		w.deliverPlain(next, v.Targets, nameOf(svc))
	case v.Action == flow.Answer && v.Good():
		w.end(Outcome{Action: flow.Answer, Status: v.Status})
	case svc != nil && port != nil:
		targets := w.candidates(svc, port, true)
		if len(targets) == 0 {
			targets = w.candidates(svc, port, false)
		}
		w.deliverPlain(next, targets, svc.Name)
	}
}

// deliverPlain delivers to endpoints behind the ingress, which are not asked for their own routes again.
func (w *walker) deliverPlain(f flow.Flow, targets []netip.AddrPort, of model.Name) {
	saved := w.http
	w.http, w.leg = nil, 1
	w.deliver(f, targets, of)
	w.http, w.leg = saved, 0
}
