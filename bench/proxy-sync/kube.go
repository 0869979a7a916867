package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/kernel/netns"
)

// buildPeer builds kube-proxy's proxiers into bin/.
func buildPeer(ctx context.Context) (string, error) {
	to, err := filepath.Abs("bin/kubeproxy")
	if err != nil {
		return "", err
	}
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-tags", "providerless", "-ldflags", "-s -w", "-o", to, "./kubeproxy")
	c.Dir, c.Env = "lab", append(os.Environ(), "CGO_ENABLED=0")
	c.Stdout, c.Stderr = os.Stderr, os.Stderr
	if err := c.Run(); err != nil {
		return "", fmt.Errorf("build the peer (run from the repository's root): %w", err)
	}
	return to, nil
}

// What the peer is told and answers; lab/kubeproxy/protocol.go has the fields with their meaning.
type (
	open struct {
		Mode         string       `json:"mode"`
		Node         *corev1.Node `json:"node"`
		ServiceCIDRs []string     `json:"serviceCIDRs"`
	}
	update struct {
		Services []*corev1.Service            `json:"services"`
		Slices   []*discoveryv1.EndpointSlice `json:"slices"`
	}
	request struct {
		Open *open   `json:"open,omitempty"`
		Sync *update `json:"sync,omitempty"`
	}
	response struct {
		Error  string `json:"error"`
		TookNS int64  `json:"tookNS"`
		CPUNS  int64  `json:"cpuNS"`
		RSSKiB int64  `json:"rssKiB"`
	}
)

// errLate says that kube-proxy was given up.
var errLate = errors.New("not done in time")

// peer is kube-proxy's process.
type peer struct {
	in  *json.Encoder
	out *json.Decoder
}

// measureKube starts kube-proxy in a namespace of its own, loads a cluster and changes one endpoint after another.
func measureKube(ctx context.Context, program string, s size, limit time.Duration) (f figures, err error) {
	ns, err := netns.New()
	if err != nil {
		return f, err
	}
	defer ns.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // kills the process
	c := exec.CommandContext(ctx, program)
	stdin, err := c.StdinPipe()
	if err != nil {
		return f, err
	}
	stdout, err := c.StdoutPipe()
	if err != nil {
		return f, err
	}
	if err := ns.Do(c.Start); err != nil {
		return f, err
	}
	p := &peer{json.NewEncoder(stdin), json.NewDecoder(stdout)}
	f, err = p.measure(s, limit, cancel)
	if errors.Is(err, errLate) {
		f, err = figures{Late: limit}, nil
	}
	stdin.Close()
	_, _ = io.Copy(io.Discard, stdout)
	_ = c.Wait() // it was killed, or has said what it had to
	return f, err
}

func (p *peer) measure(s size, limit time.Duration, kill func()) (f figures, err error) {
	o := &open{Mode: "nftables", Node: thisNode()}
	for _, r := range serviceCIDRs {
		o.ServiceCIDRs = append(o.ServiceCIDRs, r.String())
	}
	if _, err := p.call(request{Open: o}, limit, kill); err != nil {
		return f, err
	}
	everything := &update{}
	for i := range s.services {
		everything.Services = append(everything.Services, service(i))
		everything.Slices = append(everything.Slices, slice(i, s.endpoints, 0))
	}
	r, err := p.call(request{Sync: everything}, limit, kill)
	if err != nil {
		return f, err
	}
	f.Full, f.FullCPU = time.Duration(r.TookNS), time.Duration(r.CPUNS)
	for round := 1; round <= mostKube; round++ {
		one := &update{Slices: []*discoveryv1.EndpointSlice{slice(changed(round, s.services), s.endpoints, round)}}
		if r, err = p.call(request{Sync: one}, limit, kill); err != nil {
			return f, err
		}
		f.Changes = append(f.Changes, time.Duration(r.TookNS))
	}
	f.RSSKiB = r.RSSKiB
	return f, nil
}

// call sends a request and waits for the answer, at most for limit from when the request was read.
func (p *peer) call(q request, limit time.Duration, kill func()) (r response, err error) {
	if err := p.in.Encode(q); err != nil {
		return r, err
	}
	t := time.AfterFunc(limit, kill)
	err = p.out.Decode(&r)
	switch late := !t.Stop(); {
	case err != nil && late:
		return r, errLate
	case err != nil:
		return r, fmt.Errorf("its process ended: %w", err)
	case r.Error != "":
		return r, errors.New(r.Error)
	}
	return r, nil
}
