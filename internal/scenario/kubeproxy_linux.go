package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/nettest"
)

// kubeProxy is that program's process on one node.
type kubeProxy struct {
	proc *nettest.Process
	enc  *json.Encoder
	dec  *json.Decoder
	had  *apiObjects
}

// What the process is told and answers; lab/kubeproxy/protocol.go has the same fields with their meaning.
type (
	kubeRequest struct {
		Open *kubeOpen `json:"open,omitempty"`
		Sync *kubeSync `json:"sync,omitempty"`
	}
	kubeOpen struct {
		Mode         string       `json:"mode"`
		Node         *corev1.Node `json:"node"`
		ServiceCIDRs []string     `json:"serviceCIDRs"`
	}
	kubeSync struct {
		Node            *corev1.Node                 `json:"node"`
		Services        []*corev1.Service            `json:"services"`
		Slices          []*discoveryv1.EndpointSlice `json:"slices"`
		DeletedServices []string                     `json:"deletedServices"`
		DeletedSlices   []string                     `json:"deletedSlices"`
	}
	kubeResponse struct {
		Error string `json:"error"`
	}
)

// errNoConfig is why a scenario with a proxy.yaml does not run beside that program.
var errNoConfig = errors.New("the program in the hop proxy's place takes no " + proxyFile)

// startKubeProxy starts the process on a node.
func startKubeProxy(ctx context.Context, h *nettest.Host, o KubeProxy, n *corev1.Node) (*kubeProxy, error) {
	p, err := h.Start(ctx, []string{o.Program})
	if err != nil {
		return nil, err
	}
	k := &kubeProxy{proc: p, enc: json.NewEncoder(p.Stdin), dec: json.NewDecoder(p.Stdout), had: newAPIObjects()}
	open := &kubeOpen{Mode: o.Mode, Node: n}
	for _, c := range ServiceCIDRs {
		open.ServiceCIDRs = append(open.ServiceCIDRs, c.String())
	}
	if err := k.call(kubeRequest{Open: open}); err != nil {
		k.stop()
		return nil, err
	}
	return k, nil
}

func (k *kubeProxy) call(r kubeRequest) error {
	var resp kubeResponse
	err := k.enc.Encode(r)
	if err == nil {
		err = k.dec.Decode(&resp)
	}
	if err == nil && resp.Error != "" {
		err = errors.New(resp.Error)
	}
	if err != nil {
		return fmt.Errorf("kube-proxy: %w: %s", err, lastLines(k.proc.Stderr(), 5))
	}
	return nil
}

func (k *kubeProxy) stop() { _ = k.proc.Stop(2 * time.Second) }

// kill ends the process where it stands.
func (k *kubeProxy) kill() { _ = k.proc.Stop(0) }

// apply tells the process what differs from the state it had, and returns when it has written that.
func (k *kubeProxy) apply(node string, now *apiObjects) error {
	s := &kubeSync{Node: now.nodes[node]}
	s.Services, s.DeletedServices = changed(k.had.services, now.services)
	s.Slices, s.DeletedSlices = changed(k.had.slices, now.slices)
	if err := k.call(kubeRequest{Sync: s}); err != nil {
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
