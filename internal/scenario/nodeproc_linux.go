package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/trace"
)

// kernelNode is a node's namespace and the process that runs its hops there.
type kernelNode struct {
	name string
	opts NodeOptions
	host *nettest.Host
	proc running
	kube *kubeProxy // in place of the hop proxy

	mu  sync.Mutex // one request at a time
	enc *json.Encoder
	dec *json.Decoder
}

// start starts the process on a host and opens its hops.
func (w *kernelWorld) start(ctx context.Context, h *nettest.Host, o NodeOptions, f *File) (*kernelNode, error) {
	n := &kernelNode{name: o.Node, opts: o, host: h}
	if w.o.Inside != nil && !o.Ingress && !f.killed() {
		n.proc, n.enc, n.dec = startInside(ctx, h, w.o.Inside)
	} else {
		p, err := h.Start(ctx, append([]string{w.o.Program}, w.o.NodeArgs...), o.env(w.o.Env)...)
		if err != nil {
			return nil, err
		}
		n.proc, n.enc, n.dec = p, json.NewEncoder(p.Stdin), json.NewDecoder(p.Stdout)
	}
	_, err := n.call(request{Op: "open", Scenario: f.data, Options: o})
	if kube := w.o.KubeProxy.Program != "" && !o.Ingress; err == nil && kube && f.Steps[0].State.proxy != nil {
		err = errNoConfig
	} else if err == nil && kube {
		n.kube, err = startKubeProxy(ctx, h, w.o.KubeProxy, w.api.nodes[o.Node])
	}
	if err != nil {
		n.stop()
		return nil, err
	}
	return n, nil
}

// apply brings the node to a step of the file it was given.
func (n *kernelNode) apply(step int, objects *apiObjects) error {
	_, err := n.call(request{Op: "apply", Step: step})
	if err == nil && n.kube != nil {
		err = n.kube.apply(n.name, objects)
	}
	if err != nil {
		return fmt.Errorf("node %s: %w", n.name, err)
	}
	return nil
}

func (n *kernelNode) call(r request) (flow.Verdict, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var resp response
	err := n.enc.Encode(r)
	if err == nil {
		err = n.dec.Decode(&resp)
	}
	switch {
	case err != nil:
		return flow.Verdict{}, fmt.Errorf("node %s: its process ended: %w: %s", n.name, err, lastLines(n.proc.Stderr(), 5))
	case resp.NotChecked:
		return resp.Verdict, trace.ErrNotChecked
	case resp.Error != "":
		return resp.Verdict, fmt.Errorf("node %s: %w", n.name, errors.New(resp.Error))
	}
	return resp.Verdict, nil
}

func (n *kernelNode) stop() {
	if n.kube != nil {
		n.kube.stop()
	}
	_ = n.proc.Stop(2 * time.Second) // how it ends says nothing about the scenario
}

// restart kills the node's processes and starts them anew, with what the kernel has.
func (w *kernelWorld) restart(ctx context.Context, f *File, st *State) error {
	return each(st.Restart, func(name string) error {
		old := w.nodes[name]
		if old == nil {
			return nil // it is new anyway
		}
		if old.kube != nil {
			old.kube.kill()
		}
		_ = old.proc.Stop(0)
		n, err := w.start(ctx, old.host, old.opts, f)
		if err != nil {
			return err
		}
		old.proc, old.enc, old.dec, old.kube = n.proc, n.enc, n.dec, n.kube // Pods hold the node
		return nil
	})
}

// programmed is the trace.View of what the nodes' kernels hold.
type programmed struct{ *kernelWorld }

// Verdict asks the hop in the node's process, or in that of an ingress proxy's Pod there.
func (p programmed) Verdict(_ context.Context, hop, node string, f flow.Flow) (flow.Verdict, error) {
	n := p.nodes[node]
	if hop == trace.HopProxy && p.o.KubeProxy.Program != "" {
		return flow.Verdict{}, trace.ErrNotChecked
	}
	if hop == trace.HopIngress {
		n = p.ingressOn(node)
	}
	if n == nil {
		return flow.Verdict{}, trace.ErrNotChecked
	}
	f.Node = node
	return n.call(request{Op: "ask", Hop: hop, Flow: &f})
}

// ingressOn is the process of an ingress proxy, on the node if there is one.
func (w *kernelWorld) ingressOn(node string) (found *kernelNode) {
	for _, kp := range w.pods {
		if kp.ingress != nil && (found == nil || kp.node.name == node) {
			found = kp.ingress
		}
	}
	return found
}

func lastLines(s string, n int) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(l[max(0, len(l)-n):], "; ")
}
