// Package kubeproxy runs the proxiers of the real kube-proxy on a host of a test network: the program of lab/kubeproxy, which
// takes objects and says when they are programmed. Tests and benchmarks hold podway's service proxy against it. It owns
// that program's process and protocol, not what is asked of it.
package kubeproxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/nettest"
)

// Build builds the program into bin/ and returns its path. It is called in the repository's root.
func Build(ctx context.Context) (string, error) {
	to, err := filepath.Abs("bin/kubeproxy")
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "providerless", "-ldflags", "-s -w", "-o", to, "./kubeproxy")
	c.Dir, c.Env = "lab", append(os.Environ(), "CGO_ENABLED=0")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("kubeproxy: build (in the repository's root): %w", err)
	}
	return to, nil
}

// What the program is told and answers; lab/kubeproxy/protocol.go has the same fields with their meaning.
type (
	// Open chooses the proxier ("nftables" or "iptables") and the node whose rules it writes.
	Open struct {
		Mode         string       `json:"mode"`
		Node         *corev1.Node `json:"node"`
		ServiceCIDRs []string     `json:"serviceCIDRs"`
	}
	// Sync is what changed since the last one.
	Sync struct {
		Node            *corev1.Node                 `json:"node,omitempty"`
		Services        []*corev1.Service            `json:"services,omitempty"`
		Slices          []*discoveryv1.EndpointSlice `json:"slices,omitempty"`
		DeletedServices []string                     `json:"deletedServices,omitempty"` // namespace/name
		DeletedSlices   []string                     `json:"deletedSlices,omitempty"`
	}
	// Took is what a sync cost: the call of the proxier alone, on the clock and in processor time with the commands that it
	// ran, and the process's resident memory after it.
	Took struct {
		Wall   time.Duration `json:"tookNS"`
		CPU    time.Duration `json:"cpuNS"`
		RSSKiB int64         `json:"rssKiB"`
	}
	request struct {
		Open *Open `json:"open,omitempty"`
		Sync *Sync `json:"sync,omitempty"`
	}
	response struct {
		Error string `json:"error"`
		Took
	}
)

// Process is that program on one host.
type Process struct {
	proc *nettest.Process
	enc  *json.Encoder
	dec  *json.Decoder
}

// Start starts the program on a host. It is killed when ctx ends.
func Start(ctx context.Context, h *nettest.Host, program string, o Open) (*Process, error) {
	proc, err := h.Start(ctx, []string{program})
	if err != nil {
		return nil, err
	}
	p := &Process{proc, json.NewEncoder(proc.Stdin), json.NewDecoder(proc.Stdout)}
	if _, err := p.call(request{Open: &o}); err != nil {
		return nil, errors.Join(err, p.Stop(0))
	}
	return p, nil
}

// Sync tells what changed and returns when it is programmed.
func (p *Process) Sync(s *Sync) (Took, error) { return p.call(request{Sync: s}) }

func (p *Process) call(q request) (Took, error) {
	var r response
	err := p.enc.Encode(q)
	if err == nil {
		err = p.dec.Decode(&r)
	}
	if err == nil && r.Error != "" {
		err = errors.New(r.Error)
	}
	if err != nil {
		return r.Took, fmt.Errorf("kube-proxy: %w: %s", err, strings.TrimSpace(p.proc.Stderr()))
	}
	return r.Took, nil
}

// Stop ends the process, and kills it when it has not ended after grace.
func (p *Process) Stop(grace time.Duration) error { return p.proc.Stop(grace) }
