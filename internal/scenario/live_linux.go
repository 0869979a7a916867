package scenario

import (
	"context"
	"fmt"

	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// Live is a world of real packets that is stepped through files without asking what they expect, for whoever sends packets
// of its own. Nodes and Pods that the next file has too stay as they are, with all that their kernels hold.
type Live struct {
	w    *kernelWorld
	file *File
}

// NewLive makes an empty world. The error says what the machine lacks.
func NewLive(o KernelOptions) (*Live, error) {
	if err := nettest.Missing(); err != nil {
		return nil, err
	}
	w, err := newKernelWorld(o)
	if err != nil {
		return nil, err
	}
	return &Live{w: w}, nil
}

// Load chooses the file of the next steps.
func (l *Live) Load(f *File) error {
	l.file = f
	return l.w.onEachNode(func(n *kernelNode) error {
		_, err := n.call(request{Op: "load", Scenario: f.data})
		return err
	})
}

// Step brings the world to a state of the file.
func (l *Live) Step(ctx context.Context, i int) error {
	if err := l.w.Step(ctx, l.file, i); err != nil {
		return fmt.Errorf("scenario: %s: %s: %w", l.file.Name, l.file.Steps[i].Name, err)
	}
	return nil
}

// Node is the host of a node, or nil.
func (l *Live) Node(name string) *nettest.Host {
	if n := l.w.nodes[name]; n != nil {
		return n.host
	}
	return nil
}

// Pod is the host of a Pod, its node's for one on the host network, or nil.
func (l *Live) Pod(name model.Name) *nettest.Host {
	if p := l.w.pods[name]; p != nil {
		return p.host
	}
	return nil
}

// Outside is the host beyond the nodes.
func (l *Live) Outside() *nettest.Host { return l.w.net.Outside() }

// Close takes the world down.
func (l *Live) Close() error { return l.w.Close() }
