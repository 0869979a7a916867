package trace

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Walk follows the question through the hops of the view: name, announce, proxy, ingress, podnet, process. It does no I/O
// of its own. After the first broken step it goes on where it can, as if that step had worked.
func Walk(ctx context.Context, s *model.Snapshot, q Question, v View) Path {
	return NewIndex(s).Walk(ctx, q, v)
}

// Walk is the function Walk over an Index that was made before.
func (x *Index) Walk(ctx context.Context, q Question, v View) Path {
	w := &walker{ctx: ctx, Index: x, q: q, v: v, path: &Path{Question: q}}
	if err := w.run(); err != nil {
		w.path.Err = err
	}
	w.path.Outcome.Targets = flow.SortTargets(w.path.Outcome.Targets)
	slices.Sort(w.path.Outcome.Pods)
	w.path.Outcome.Pods = slices.Compact(w.path.Outcome.Pods)
	return *w.path
}

type walker struct {
	*Index
	ctx    context.Context
	q      Question
	v      View
	path   *Path
	target Target

	headless *model.Service // whose name led to the destination
	broken   bool
	http     *flow.Request // what is asked, when the question is HTTP
	hops     int           // proxies passed; a packet that circles must end
	leg      int           // 1 behind the ingress
}

const maxProxies = 4

func (w *walker) run() error {
	if w.q.DNSType != "" {
		return w.digOnly()
	}
	t, proto, err := ParseTarget(w.q.Target)
	if err != nil {
		return err
	}
	w.target = t
	if w.q.Proto == "" {
		w.q.Proto = flow.TCP
	}
	if proto != "" {
		w.q.Proto = proto
	}
	w.path.Question = w.q
	if t.URL != nil {
		r := *t.URL
		if r.Method = w.q.Method; r.Method == "" {
			r.Method = "GET"
		}
		w.http = &r
	}
	f, err := w.sender()
	if err != nil {
		return err
	}
	dst, err := w.resolve(f)
	if err != nil || len(dst) == 0 {
		return err
	}
	w.start(f, dst)
	return nil
}

// sender makes the flow without its destination.
func (w *walker) sender() (flow.Flow, error) {
	f := flow.Flow{From: w.q.From, Sender: w.q.Sender, Node: w.q.Node, Proto: w.q.Proto}
	switch w.q.From {
	case flow.FromPod:
		ns, name, _ := strings.Cut(w.q.Sender, "/")
		p := w.s.Pods.At(model.N(ns, name))
		if p == nil {
			return f, fmt.Errorf("trace: there is no Pod %s", w.q.Sender)
		}
		if p.Node == "" || len(p.Addrs) == 0 {
			return f, fmt.Errorf("trace: Pod %s has no node, or no address, yet", w.q.Sender)
		}
		f.Node = p.Node
		if p.HostNetwork {
			f.From, f.Sender = flow.FromNode, p.Node
		}
	case flow.FromNode:
		if w.s.Nodes.At(w.q.Sender) == nil {
			return f, fmt.Errorf("trace: there is no Node %s", w.q.Sender)
		}
		f.Node = w.q.Sender
	case flow.FromOutside:
		f.Sender = ""
	default:
		return f, fmt.Errorf("trace: the sender is none of pod, node, outside: %q", w.q.From)
	}
	return f, nil
}

// source is the sender's address of the destination's family.
func (w *walker) source(f flow.Flow, is4 bool) netip.AddrPort {
	var addrs []netip.Addr
	switch f.From {
	case flow.FromPod:
		ns, name, _ := strings.Cut(f.Sender, "/")
		if p := w.s.Pods.At(model.N(ns, name)); p != nil {
			addrs = p.Addrs
		}
	case flow.FromNode:
		if n := w.s.Nodes.At(f.Sender); n != nil {
			addrs = n.Addrs
		}
	case flow.FromOutside:
		addrs = []netip.Addr{w.q.Addr}
	}
	for _, a := range addrs {
		if a.IsValid() && a.Is4() == is4 {
			return netip.AddrPortFrom(a, 0)
		}
	}
	return netip.AddrPort{}
}

// start sends f to the first node that decides.
func (w *walker) start(f flow.Flow, dst []netip.AddrPort) {
	f.Dst = dst[0]
	f.Src = w.source(f, f.Dst.Addr().Is4())
	switch {
	case w.ingressOnly(f):
		w.ingress("", f, nil)
		return
	case f.From == flow.FromOutside && !w.enter(&f):
		return
	}
	w.proxy(f, dst)
}

// enter finds the node where a packet from outside arrives, asking the announcer when the address needs one.
func (w *walker) enter(f *flow.Flow) bool {
	if n := w.nodes[f.Dst.Addr()]; n != nil {
		f.Node = n.Name
		return true
	}
	if w.external(f.Dst.Addr()) {
		return w.announce(f)
	}
	if f.Node == "" {
		if p := w.pod(f.Dst, model.Name{}); p != nil {
			f.Node = p.Node
		} else if n := w.readyNode(); n != nil {
			f.Node = n.Name
		}
	}
	return true
}

// announce asks who answers for an address that lies on no node.
func (w *walker) announce(f *flow.Flow) bool {
	svc, _ := w.service(f.Dst, f.Proto)
	asked := f.Node
	if asked == "" {
		if n := w.readyNode(); n != nil {
			asked = n.Name
		}
	}
	st := w.ask(HopAnnounce, asked, *f, svc)
	if f.Node == "" {
		if f.Node = st.Verdict.Node; f.Node == "" {
			f.Node = asked
		}
	}
	return f.Node != ""
}

// proxy asks the Service proxy of f.Node and follows what it says. dst is every address the name stands for; only a
// headless Service has several.
func (w *walker) proxy(f flow.Flow, dst []netip.AddrPort) {
	n := w.s.Nodes.At(f.Node)
	f.DstLocal = n != nil && slices.Contains(n.Addrs, f.Dst.Addr())
	f.SrcLocal = w.sentOn(f)
	svc, port := w.service(f.Dst, f.Proto)
	st := w.ask(HopProxy, f.Node, f, svc)
	verdict := st.Verdict
	if port != nil {
		w.last().Port = port.Port
	}
	w.hops++
	switch {
	case verdict.Action == flow.Forward:
		if verdict.Masquerade {
			w.masquerade(&f)
		}
		w.deliver(f, verdict.Targets, nameOf(svc))
	case verdict.Action == flow.Pass:
		w.passed(f, dst)
	case svc != nil && port != nil:
		w.deliver(f, w.candidates(svc, port, f.Dst.Addr().Is4()), svc.Name)
	}
}

// sentOn reports whether the flow's sender is a Pod of the node that it is at.
func (w *walker) sentOn(f flow.Flow) bool {
	if f.From != flow.FromPod {
		return false
	}
	ns, name, _ := strings.Cut(f.Sender, "/")
	p := w.s.Pods.At(model.N(ns, name))
	return p != nil && p.Node == f.Node
}

// passed follows a destination that the proxy left as it is.
func (w *walker) passed(f flow.Flow, dst []netip.AddrPort) {
	if n := w.nodes[f.Dst.Addr()]; n != nil {
		if n.Name == f.Node {
			w.atNode(n, f)
		} else if w.hops < maxProxies {
			w.toNode(&f, n)
			w.proxy(f, dst)
		}
		return
	}
	if w.external(f.Dst.Addr()) && f.From != flow.FromOutside && w.hops < maxProxies {
		f.Node = ""
		if w.announce(&f) {
			w.proxy(f, dst)
		}
		return
	}
	w.deliver(f, dst, nameOf(w.headless))
}

// atNode ends at a process of the node itself.
func (w *walker) atNode(n *model.Node, f flow.Flow) {
	if p, port := w.hostPort(n, f); p != nil {
		to := p.Addrs[slices.IndexFunc(p.Addrs, func(a netip.Addr) bool { return a.Is4() == f.Dst.Addr().Is4() })]
		w.last().Detail = fmt.Sprintf("%s is a hostPort of Pod %s -> %s", f.Dst, p.Name, netip.AddrPortFrom(to, port))
		w.deliver(f, []netip.AddrPort{netip.AddrPortFrom(to, port)}, model.Name{})
		return
	}
	if p := w.pod(f.Dst, model.Name{}); p != nil {
		w.process([]netip.AddrPort{f.Dst}, f, model.Name{})
		return
	}
	w.ofNode(n, f)
	w.end(Outcome{Action: flow.Pass, Node: n.Name, Targets: []netip.AddrPort{f.Dst}})
}

// ofNode is the process of a node that may listen there: no object says so.
func (w *walker) ofNode(n *model.Node, f flow.Flow) {
	f.Node = n.Name
	w.add(Step{Hop: HopProcess, Node: n.Name, Flow: f, Verdict: flow.Verdict{Action: flow.Pass, Why: "a process of the node itself"},
		Unchecked: fmt.Sprintf("whether a process of node %s listens on port %d/%s", n.Name, f.Dst.Port(), f.Proto)})
}

// toNode takes a packet for a node's own address there, over the pod network of the node it is on.
func (w *walker) toNode(f *flow.Flow, n *model.Node) {
	st := w.ask(HopPodnet, f.Node, *f, nil)
	if st.Verdict.Masquerade {
		w.masquerade(f)
	}
	f.Node = n.Name
}

// masquerade makes the node the sender that the target sees.
func (w *walker) masquerade(f *flow.Flow) {
	if n := w.s.Nodes.At(f.Node); n != nil {
		if a := n.Addr(f.Dst.Addr().Is4()); a.IsValid() {
			f.Src = netip.AddrPortFrom(a, 0)
		}
	}
}

// ask puts one step on the path and tells whether it is broken.
func (w *walker) ask(hop, node string, f flow.Flow, svc *model.Service) Step {
	v, err := w.v.Verdict(w.ctx, hop, node, f)
	w.add(Step{Hop: hop, Node: node, Flow: f, Verdict: v, Err: err, Service: nameOf(svc)})
	return *w.last()
}

// add gives the step its state by its verdict and puts it on the path.
func (w *walker) add(st Step) {
	st.Leg = w.leg
	failed := st.Err == nil && !st.Verdict.Good() || hasError(st.Findings)
	switch {
	case failed && w.broken:
		st.State = WouldFail
	case failed:
		st.State, w.broken = Broken, true
		o := Outcome{Action: st.Verdict.Action, Status: st.Verdict.Status, Rcode: st.Verdict.Rcode, Records: st.Verdict.Records}
		if st.Way != nil && !st.Way.Good() {
			o = Outcome{Action: st.Way.Action}
		}
		if o.Action == flow.Pass || o.Action == flow.Forward {
			o.Action = flow.Dropped
		}
		w.path.Outcome = o
	case st.Err != nil:
		st.State = Unknown
	case w.broken:
		st.State = WouldPass
	default:
		st.State = OK
	}
	w.path.Steps = append(w.path.Steps, st)
}

func (w *walker) last() *Step { return &w.path.Steps[len(w.path.Steps)-1] }

// end adds to the outcome, unless a broken step has decided it.
func (w *walker) end(o Outcome) {
	if w.broken {
		return
	}
	all := w.path.Outcome
	o.Targets, o.Pods = append(all.Targets, o.Targets...), append(all.Pods, o.Pods...)
	w.path.Outcome = o
}

func hasError(all []flow.Finding) bool {
	return slices.ContainsFunc(all, func(f flow.Finding) bool { return f.Severity == flow.Error })
}

func nameOf(svc *model.Service) model.Name {
	if svc == nil {
		return model.Name{}
	}
	return svc.Name
}
