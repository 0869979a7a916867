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
	dir  string
	host *nettest.Host
	proc *nettest.Process

	mu  sync.Mutex // one request at a time
	enc *json.Encoder
	dec *json.Decoder
}

// newKernelNode starts the process; argv is the program that calls NodeMain.
func newKernelNode(ctx context.Context, h *nettest.Host, argv, env []string, dir string) (*kernelNode, error) {
	p, err := h.Start(ctx, argv, env...)
	if err != nil {
		return nil, err
	}
	return &kernelNode{name: h.Name, dir: dir, host: h, proc: p, enc: json.NewEncoder(p.Stdin), dec: json.NewDecoder(p.Stdout)}, nil
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
	_ = n.proc.Stop(2 * time.Second) // how it ends says nothing about the scenario
}

// programmed is the trace.View of what the nodes' kernels hold.
type programmed map[string]*kernelNode

// Verdict asks the hop in the node's process.
func (p programmed) Verdict(_ context.Context, hop, node string, f flow.Flow) (flow.Verdict, error) {
	n := p[node]
	if n == nil {
		return flow.Verdict{}, trace.ErrNotChecked
	}
	return n.call(request{Op: "ask", Hop: hop, Flow: &f})
}

func lastLines(s string, n int) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(l[max(0, len(l)-n):], "; ")
}
