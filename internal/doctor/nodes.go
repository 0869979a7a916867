package doctor

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/ask"
)

// expected is a Pod that a whole way leads to, and where it should listen.
type expected struct {
	pod     *model.Pod
	service model.Name
	dst     netip.AddrPort
	proto   flow.Proto
	what    string
}

// expect notes every target of the way.
func (e *examiner) expect(p *trace.Path, what string) {
	for _, st := range p.Steps {
		if st.Hop != trace.HopProcess || st.Service.Name == "" || st.Flow.Proto == flow.SCTP {
			continue
		}
		targets := []netip.AddrPort{st.Flow.Dst}
		if slices.Contains(p.Outcome.Targets, st.Flow.Dst) {
			targets = p.Outcome.Targets // the limit left some out
		}
		for _, t := range targets {
			pod := e.x.Pod(t, st.Service)
			if pod == nil || pod.UID == "" || slices.ContainsFunc(e.expected, func(x expected) bool { return x.pod == pod && x.dst == t && x.proto == st.Flow.Proto }) {
				continue
			}
			e.expected = append(e.expected, expected{pod, st.Service, t, st.Flow.Proto, what})
		}
	}
}

// told is what one node answered.
type told struct {
	status     ask.Status
	pods       ask.PodSockets
	err, noPod error
}

// nodes asks every node how it is and, at once for all of them, what its Pods listen on.
func (e *examiner) nodes() {
	all := model.Sorted(e.s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) })
	e.r.Nodes = len(all)
	for _, n := range all {
		if !n.Ready {
			e.hit(flow.Finding{Code: flow.NodeNotReady, Severity: flow.Warning, Object: "node " + n.Name, Cause: "node " + n.Name + " is not ready",
				Fix: "kubectl describe node " + n.Name}, "")
		}
	}
	if e.o.Status == nil {
		return
	}
	if len(all) == 0 {
		e.notChecked("the nodes' live state: no Node is to be seen")
	}
	answers := map[string]*told{}
	var wait sync.WaitGroup
	gate := make(chan struct{}, atOnce)
	for _, n := range all {
		t := &told{}
		answers[n.Name] = t
		wait.Go(func() {
			gate <- struct{}{}
			defer func() { <-gate }()
			e.askNode(n.Name, t)
		})
	}
	wait.Wait()
	for _, n := range all {
		e.node(n, answers[n.Name])
	}
	e.listening(answers)
}

// atOnce is how many nodes are asked at the same time.
const atOnce = 32

func (e *examiner) askNode(node string, t *told) {
	if t.status, t.err = e.o.Status(e.ctx, node); t.err != nil || e.o.Sockets == nil {
		return
	}
	var uids []string
	for _, x := range e.expected {
		if x.pod.Node == node && !slices.Contains(uids, x.pod.UID) {
			uids = append(uids, x.pod.UID)
		}
	}
	if len(uids) > 0 {
		t.pods, t.noPod = e.o.Sockets(e.ctx, node, uids)
	}
}

func (e *examiner) node(n *model.Node, t *told) {
	object := "node " + n.Name
	switch {
	case errors.Is(t.err, trace.ErrNotChecked):
		e.notChecked("the nodes' live state: podway-node is not installed in this cluster")
	case errors.Is(t.err, trace.ErrNoPods):
		e.hit(flow.Finding{Code: flow.SelectorNoPod, Severity: flow.Error, Object: trace.NodeDaemonSet, Cause: trace.NodeDaemonSet + " has made no Pod: the service proxy, DNS and the Pod network are kept up by nobody",
			Fix: "kubectl describe -n kube-system daemonset/podway-node"}, object)
		e.notChecked("the live state of " + object)
	case t.err != nil:
		e.hit(flow.Finding{Code: flow.AgentDown, Severity: flow.Warning, Object: object, Cause: fmt.Sprintf("the live state of %s could not be read: %v", object, t.err),
			Fix: "kubectl -n kube-system get pods -o wide -l app.kubernetes.io/name=podway-node"}, "")
		e.notChecked("the live state of " + object)
	default:
		e.r.Asked++
		for _, f := range trace.NodeFindings(n.Name, &t.status) {
			e.hit(e.x.Root(f), "")
		}
	}
	if t.err == nil && t.noPod != nil {
		e.notChecked(fmt.Sprintf("what the Pods of %s listen on: %v", object, t.noPod))
	}
}

// listening compares what the Pods listen on with what is sent there, one finding for all Pods behind a Service's port.
func (e *examiner) listening(answers map[string]*told) {
	type key struct {
		service model.Name
		port    uint16
		proto   flow.Proto
	}
	seen, bad := map[key]int{}, map[key][]expected{}
	var order []key
	for _, x := range e.expected {
		k := key{x.service, x.dst.Port(), x.proto}
		t := answers[x.pod.Node]
		if t == nil || t.pods == nil {
			continue
		}
		r, there := t.pods[x.pod.UID]
		if !there {
			e.notChecked(fmt.Sprintf("what Pod %s listens on: no process of it was found on node %s", x.pod.Name, x.pod.Node))
			continue
		}
		seen[k]++
		if f, _ := e.x.Listening(trace.Listener{Object: "Pod " + x.pod.Name.String(), Service: x.service, Dst: x.dst, Proto: x.proto}, r); f != nil {
			if bad[k] == nil {
				order = append(order, k)
			}
			bad[k] = append(bad[k], x)
		}
	}
	for _, k := range order {
		first := bad[k][0]
		f, _ := e.x.Listening(trace.Listener{Object: "Pod " + first.pod.Name.String(), Service: k.service, Dst: first.dst, Proto: k.proto,
			Share: fmt.Sprintf("%d of %d Pods", len(bad[k]), seen[k])}, answers[first.pod.Node].pods[first.pod.UID])
		e.hit(*f, first.what)
	}
}
