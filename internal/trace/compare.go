package trace

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace/ask"
	"github.com/podway/podway/internal/trace/probe"
	"github.com/podway/podway/internal/trace/sockets"
)

// Layers is what can be learned beyond the API. A nil field is a layer that is not looked at. All are called from several
// goroutines at a time.
type Layers struct {
	Programmed View
	Status     func(ctx context.Context, node string) (ask.Status, error)
	Sockets    func(ctx context.Context, p *model.Pod) (sockets.Report, error)
	OfNode     func(ctx context.Context, node string) (sockets.Report, error)                // the sockets of the node itself
	Probe      func(ctx context.Context, from Origin, r probe.Request) (probe.Answer, error) // sends real packets
}

// Origin is where a probe is sent from: a Pod, a node, or (the zero Origin) the machine of whoever asks.
type Origin struct{ Node, PodUID string }

// ErrAgentDown is the error of a layer when podway should run on the node and does not answer.
var ErrAgentDown = errors.New("podway does not answer on this node")

// ErrNoPods is ErrAgentDown in a cluster where podway is installed and has no Pod at all.
var ErrNoPods = fmt.Errorf("%w: %s has no Pod", ErrAgentDown, NodeDaemonSet)

// Compare puts the live state and what is observed beside the declared verdicts of the path, and gives each step the state
// that follows from all three.
func (x *Index) Compare(ctx context.Context, p *Path, l Layers) {
	c := &comparer{Index: x, ctx: ctx, p: p, l: l, status: map[string]*ask.Status{}}
	c.askAll()
	c.judgeAll()
	c.judgeSockets()
	if l.Probe != nil {
		c.probeAll()
	}
	c.settle()
}

type comparer struct {
	*Index
	ctx    context.Context
	p      *Path
	l      Layers
	status map[string]*ask.Status // by node
	ports  []*sockets.Report      // by step; nil = not seen
	mu     sync.Mutex
}

// askAll asks for every step at once: the nodes answer side by side.
func (c *comparer) askAll() {
	var wait sync.WaitGroup
	c.ports = make([]*sockets.Report, len(c.p.Steps))
	for i := range c.p.Steps {
		wait.Go(func() { c.askStep(i, &c.p.Steps[i]) })
	}
	if c.l.Status != nil {
		for node := range c.nodesAsked() {
			wait.Go(func() {
				if st, err := c.l.Status(c.ctx, node); err == nil {
					c.mu.Lock()
					defer c.mu.Unlock()
					c.status[node] = &st
				}
			})
		}
	}
	wait.Wait()
}

func (c *comparer) nodesAsked() map[string]bool {
	out := map[string]bool{}
	for _, st := range c.p.Steps {
		if st.Node != "" {
			out[st.Node] = true
		}
	}
	return out
}

func (c *comparer) askStep(i int, st *Step) {
	var err error
	switch {
	case st.Hop == HopProcess:
		err = c.askSockets(i, st)
	case c.l.Programmed == nil, programmedNode(st) == "":
		return
	default:
		var v flow.Verdict
		if v, err = c.l.Programmed.Verdict(c.ctx, st.Hop, programmedNode(st), st.Flow); err == nil {
			st.Programmed = &v
		}
		c.askWay(st)
	}
	if err == nil {
		return
	}
	st.Unasked = reason(err)
	if errors.Is(err, ErrAgentDown) {
		st.Findings = append(st.Findings, flow.Finding{Code: flow.AgentDown, Severity: flow.Warning, Object: "node " + st.Node,
			Cause: "the live state of node " + st.Node + " could not be read: " + reason(err), Fix: "kubectl -n kube-system get pods -o wide -l app.kubernetes.io/name=podway-node"})
	}
}

// askWay compares what the node's proxy does with questions to the DNS server.
func (c *comparer) askWay(st *Step) {
	if st.Way == nil || !st.Way.Good() {
		return
	}
	v, err := c.l.Programmed.Verdict(c.ctx, HopProxy, st.Node, dnsPacket(st.Flow))
	if err != nil || v.Same(*st.Way) {
		return
	}
	st.Findings = append(st.Findings, finding(flow.RulesDiffer, "node "+st.Node, fmt.Sprintf("the rules of node %s send questions to the DNS server another way than the cluster says", st.Node),
		repairs(st.Node), "declared "+st.Way.String(), "programmed "+v.String()))
}

// programmedNode is the node whose live state matters: for an address, the one that should answer for it.
func programmedNode(st *Step) string {
	if st.Hop == HopAnnounce && st.Verdict.Node != "" {
		return st.Verdict.Node
	}
	return st.Node
}

func reason(err error) string {
	return strings.TrimPrefix(strings.TrimPrefix(err.Error(), ErrNotChecked.Error()+": "), "ask: ")
}

func (c *comparer) askSockets(i int, st *Step) error {
	if len(st.Pods) == 0 && st.Node != "" && st.Unchecked != "" && c.l.OfNode != nil && c.nodes[st.Flow.Dst.Addr()] != nil {
		r, err := c.l.OfNode(c.ctx, st.Node)
		if err == nil {
			c.ports[i] = &r
		}
		return err
	}
	if c.l.Sockets == nil || len(st.Pods) == 0 {
		return nil
	}
	p := c.s.Pods.At(st.Pods[0])
	if p == nil {
		return nil
	}
	r, err := c.l.Sockets(c.ctx, p)
	if err == nil {
		c.ports[i] = &r
	}
	return err
}

// judgeAll says where the live state disagrees with the API, and how the agents are.
func (c *comparer) judgeAll() {
	told := map[string]bool{}
	for i := range c.p.Steps {
		st := &c.p.Steps[i]
		node := programmedNode(st)
		s := c.status[node]
		if s != nil && st.Hop == HopProxy {
			if f, full := conntrackFinding(node, s); full {
				st.Findings = append(st.Findings, f)
			}
		}
		if s != nil && s.Lost > 0 && !told[node] {
			told[node] = true
			st.Findings = append(st.Findings, stale(node, s, flow.Warning))
		}
		if st.Programmed == nil || st.Err != nil {
			continue
		}
		if !st.Verdict.Same(*st.Programmed) {
			st.Findings = append([]flow.Finding{disagreement(st, s)}, st.Findings...)
		} else if f := firstError(st.Programmed.Findings); f != nil && st.Verdict.Good() {
			st.Findings = append([]flow.Finding{*f}, st.Findings...)
		}
	}
}

func stale(node string, s *ask.Status, sev flow.Severity) flow.Finding {
	return flow.Finding{Code: flow.AgentStale, Severity: sev, Object: "node " + node,
		Cause: fmt.Sprintf("podway on node %s has not reached the API server for %s; it keeps its last good state", node, s.Lost.Round(time.Second)),
		Fix:   "see the agent's log and the way from the node to the API server"}
}

// repairs is what makes a node's live state right again.
func repairs(node string) string {
	pods := "kubectl -n kube-system get pod -l app.kubernetes.io/name=podway-node --field-selector spec.nodeName=" + node
	return "podway-node on node " + node + " makes it right within a minute when it runs; see that it does: " + pods +
		"\nwhen it runs and this stays, see why, and start it anew: kubectl -n kube-system logs $(" + pods + " -o name); kubectl -n kube-system delete $(" + pods + " -o name)"
}

// disagreement says why the live state is another than the API's.
func disagreement(st *Step, s *ask.Status) flow.Finding {
	node := programmedNode(st)
	f := flow.Finding{Severity: flow.Error, Object: "node " + node, Fix: repairs(node)}
	switch own := firstError(st.Programmed.Findings); {
	case s != nil && s.Failing[st.Hop] != "":
		f.Code, f.Cause = flow.ApplyFailed, fmt.Sprintf("podway could not program hop %s of node %s: %s", st.Hop, node, s.Failing[st.Hop])
	case s != nil && s.Lost > 0:
		f = stale(node, s, flow.Error)
	case own != nil:
		f = *own
	case st.Hop == HopName && (s != nil && !s.Synced || st.Programmed.Rcode == "SERVFAIL"):
		f.Code, f.Cause = flow.DNSNotSynced, fmt.Sprintf("the DNS server of node %s has not seen the whole cluster yet", node)
	case st.Hop == HopName:
		f.Code, f.Cause = flow.DNSWrongAnswer, fmt.Sprintf("the DNS server of node %s answers differently from what the cluster says", node)
	case st.Hop == HopAnnounce:
		f.Code, f.Cause = flow.LBNotAnnounced, fmt.Sprintf("node %s should answer for %s, and does not", node, st.Flow.Dst.Addr())
	case st.Hop == HopPodnet:
		f.Code, f.Cause = flow.NoRouteToPod, fmt.Sprintf("node %s sends packets for %s another way than it should", node, st.Flow.Dst.Addr())
	case st.Hop == HopIngress:
		f.Code, f.Cause = flow.AgentStale, fmt.Sprintf("the routes of the ingress proxy on node %s are not what the cluster says", node)
	default:
		f.Code, f.Cause = flow.RulesDiffer, fmt.Sprintf("the rules of node %s are not what the cluster says", node)
	}
	f.Evidence = append(f.Evidence, "declared "+st.Verdict.String(), "programmed "+st.Programmed.String())
	return f
}
