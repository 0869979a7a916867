package remote

import (
	"context"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/ask"
	"github.com/podway/podway/internal/trace/probe"
	"github.com/podway/podway/internal/trace/sockets"
)

// The commands of podway's image, and the container of a podway-node Pod that may enter Pods' network namespaces.
var (
	askCommand   = []string{"/podway", "agent", "ask"}
	probeCommand = []string{"/podway", "agent", "probe"}
)

const probeContainer = "probe"

// Agents asks the podway processes of the cluster's nodes. One exec a Pod is started when it is first asked, and kept.
type Agents struct {
	c     *Cluster
	s     *model.Snapshot
	ctx   context.Context // of the execs
	stop  context.CancelFunc
	mu    sync.Mutex
	asks  map[model.Name]*ask.Client
	sends map[model.Name]*probe.Client
}

// Agents makes the way to the nodes of the snapshot. Close ends what it started.
func (c *Cluster) Agents(ctx context.Context, s *model.Snapshot) *Agents {
	ctx, stop := context.WithCancel(ctx)
	return &Agents{c: c, s: s, ctx: ctx, stop: stop, asks: map[model.Name]*ask.Client{}, sends: map[model.Name]*probe.Client{}}
}

// Close ends every exec.
func (a *Agents) Close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.asks {
		_ = c.Close()
	}
	for _, c := range a.sends {
		_ = c.Close()
	}
	a.stop()
}

// Layers is the layers of trace over these agents; probing says whether real packets may be sent.
func (a *Agents) Layers(probing bool) trace.Layers {
	l := trace.Layers{Programmed: a, Status: a.status, Sockets: a.sockets, OfNode: a.nodeSockets}
	if probing {
		l.Probe = a.probe
	}
	return l
}

// Verdict implements trace.View: what the live state of the node would do. The ingress proxy is a Pod of its own.
func (a *Agents) Verdict(ctx context.Context, hop, node string, f flow.Flow) (flow.Verdict, error) {
	find := a.nodePod
	if hop == trace.HopIngress {
		find = a.ingressPod
	}
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	c, err := a.client(ctx, find, node)
	if err != nil {
		return flow.Verdict{}, err
	}
	v, err := c.Programmed(ctx, hop, f)
	return v, a.lost(err)
}

func (a *Agents) status(ctx context.Context, node string) (ask.Status, error) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	c, err := a.client(ctx, a.nodePod, node)
	if err != nil {
		return ask.Status{}, err
	}
	st, err := c.Status(ctx)
	return st, a.lost(err)
}

func (a *Agents) sockets(ctx context.Context, p *model.Pod) (sockets.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	c, err := a.client(ctx, a.nodePod, p.Node)
	if err != nil {
		return sockets.Report{}, err
	}
	r, err := c.Sockets(ctx, p.UID)
	return r, a.lost(err)
}

// nodeSockets asks what the node itself listens on.
func (a *Agents) nodeSockets(ctx context.Context, node string) (sockets.Report, error) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	c, err := a.client(ctx, a.nodePod, node)
	if err != nil {
		return sockets.Report{}, err
	}
	r, err := c.NodeSockets(ctx)
	return r, a.lost(err)
}

// PodSockets asks a node what its Pods listen on, all at once.
func (a *Agents) PodSockets(ctx context.Context, node string, podUIDs []string) (ask.PodSockets, error) {
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	c, err := a.client(ctx, a.nodePod, node)
	if err != nil {
		return nil, err
	}
	r, err := c.PodSockets(ctx, podUIDs)
	return r, a.lost(err)
}

// lost turns an error of the connection, not of the question, into trace.ErrAgentDown.
func (a *Agents) lost(err error) error {
	if err == nil {
		return nil
	}
	if _, answered := err.(*ask.Error); answered { //nolint:errorlint // the client returns it as it is
		return err
	}
	return fmt.Errorf("%w: %w", trace.ErrAgentDown, err)
}

// probe sends from this machine, from a node, or from a Pod of a node.
func (a *Agents) probe(ctx context.Context, from trace.Origin, r probe.Request) (probe.Answer, error) {
	if from.Node == "" {
		if a.c.noWay(a.s) {
			return probe.Answer{}, fmt.Errorf("%w: this machine has no way to the nodes' network: run it where the client is (in a cluster of podway up: podway exec client -- podway trace ...)", trace.ErrNotChecked)
		}
		return probe.Do(ctx, sockets.Procs(), r), nil
	}
	r.PodUID = from.PodUID
	ctx, cancel := context.WithTimeout(ctx, AskTimeout)
	defer cancel()
	name, err := a.nodePod(from.Node)
	if err != nil {
		return probe.Answer{}, err
	}
	a.mu.Lock()
	c := a.sends[name]
	if c == nil {
		c = probe.NewClient(a.c.start(a.ctx, command{name, probeContainer, probeCommand}))
		a.sends[name] = c
	}
	a.mu.Unlock()
	return c.Do(ctx, r)
}

// client returns the connection to the podway process that find names.
func (a *Agents) client(ctx context.Context, find func(string) (model.Name, error), node string) (*ask.Client, error) {
	name, err := find(node)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if c := a.asks[name]; c != nil {
		return c, nil
	}
	container, err := a.container(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", trace.ErrAgentDown, err)
	}
	c := ask.NewClient(a.c.start(a.ctx, command{name, container, askCommand}))
	a.asks[name] = c
	return c, nil
}

// container is the Pod's first one that does not only send probes.
func (a *Agents) container(ctx context.Context, name model.Name) (string, error) {
	p, err := a.c.Clients.Typed.CoreV1().Pods(name.Namespace).Get(ctx, name.Name, metav1.GetOptions{})
	if err != nil {
		return "", err
	}
	for _, c := range p.Spec.Containers {
		if c.Name != probeContainer {
			return c.Name, nil
		}
	}
	return "", fmt.Errorf("pod %s has no container of podway", name)
}

func (a *Agents) nodePod(node string) (model.Name, error) {
	return a.podOn(node, "podway-node", trace.IsNodePod)
}

func (a *Agents) ingressPod(node string) (model.Name, error) {
	return a.podOn(node, "podway-ingress", trace.IsIngressPod)
}

// podOn finds podway's Pod on the node: trace.ErrNotChecked when the cluster has none at all.
func (a *Agents) podOn(node, what string, is func(*model.Pod) bool) (model.Name, error) {
	installed := false
	for p := range a.s.Pods.Values() {
		if !is(p) || p.Terminal() {
			continue
		}
		if installed = true; p.Node == node && p.Phase == "Running" {
			return p.Name, nil
		}
	}
	for w := range a.s.Workloads.Values() {
		if w.Kind == "DaemonSet" && is(&model.Pod{Labels: w.Labels}) && what == "podway-node" && !installed {
			return model.Name{}, trace.ErrNoPods
		}
	}
	if installed {
		return model.Name{}, fmt.Errorf("%w: no Pod of %s runs there", trace.ErrAgentDown, what)
	}
	return model.Name{}, fmt.Errorf("%w: %s is not installed in this cluster", trace.ErrNotChecked, what)
}
