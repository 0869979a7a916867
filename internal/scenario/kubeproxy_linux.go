package scenario

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/nettest/kubeproxy"
)

// kubeProxy is that program's process on one node, and what it has been told.
type kubeProxy struct {
	proc *kubeproxy.Process
	had  *apiObjects
}

// errNoConfig is why a scenario with a proxy.yaml does not run beside that program.
var errNoConfig = errors.New("the program in the hop proxy's place takes no " + proxyFile)

// startKubeProxy starts the process on a node.
func startKubeProxy(ctx context.Context, h *nettest.Host, o KubeProxy, n *corev1.Node) (*kubeProxy, error) {
	open := kubeproxy.Open{Mode: o.Mode, Node: n}
	for _, c := range ServiceCIDRs {
		open.ServiceCIDRs = append(open.ServiceCIDRs, c.String())
	}
	p, err := kubeproxy.Start(ctx, h, o.Program, open)
	if err != nil {
		return nil, err
	}
	return &kubeProxy{proc: p, had: newAPIObjects()}, nil
}

func (k *kubeProxy) stop() { _ = k.proc.Stop(2 * time.Second) }

// kill ends the process where it stands.
func (k *kubeProxy) kill() { _ = k.proc.Stop(0) }

// apply tells the process what differs from the state it had, and returns when it has written that.
func (k *kubeProxy) apply(node string, now *apiObjects) error {
	s := &kubeproxy.Sync{Node: now.nodes[node]}
	s.Services, s.DeletedServices = changed(k.had.services, now.services)
	s.Slices, s.DeletedSlices = changed(k.had.slices, now.slices)
	if _, err := k.proc.Sync(s); err != nil {
		return err
	}
	k.had = now
	return nil
}

func changed[T any](had, now map[string]*T) (put []*T, gone []string) {
	for name, o := range now {
		if old := had[name]; old == nil || !reflect.DeepEqual(old, o) {
			put = append(put, o)
		}
	}
	for name := range had {
		if now[name] == nil {
			gone = append(gone, name)
		}
	}
	slices.Sort(gone)
	return put, gone
}
