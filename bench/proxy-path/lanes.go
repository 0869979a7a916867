package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/ebpf"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

const direct = "direct"

// lanes are what is measured, in the order of the table.
var lanes = []struct {
	name string
	load loader
}{
	{direct, nil},
	{"podway-nft", podway(func(h *nettest.Host) (proxy.Backend, error) { return nft.In(h.NS()), nil })},
	{"podway-ebpf", podway(func(h *nettest.Host) (proxy.Backend, error) {
		return ebpf.In(h.NS(), ebpf.Paths{Cgroup: h.Cgroup(), BPF: h.BPF()}), nil
	})},
	{"kube-proxy-nft", kubeProxy("nftables")},
	{"kube-proxy-iptables", kubeProxy("iptables")},
}

// loader programs a node; the closer stops what does so.
type loader func(ctx context.Context, node *nettest.Host, o objects, peer string) (io.Closer, error)

var loaders = func() map[string]loader {
	m := map[string]loader{}
	for _, l := range lanes {
		m[l.name] = l.load
	}
	return m
}()

func laneNames() (out []string) {
	for _, l := range lanes {
		out = append(out, l.name)
	}
	return out
}

var serviceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}

// podway programs with one of podway's backends, and sees that the kernel has what was applied.
func podway(open func(*nettest.Host) (proxy.Backend, error)) loader {
	return func(ctx context.Context, node *nettest.Host, o objects, _ string) (io.Closer, error) {
		b, err := open(node)
		if err != nil {
			return nil, err
		}
		p := proxy.New(proxy.Options{Node: node.Name, Backend: b, ServiceCIDRs: serviceCIDRs})
		s := model.NewBuilder(nil)
		s.Put(cluster.Convert(&o.node))
		for i := range o.services {
			s.Put(cluster.Convert(&o.services[i]))
			s.Put(cluster.Convert(&o.slices[i]))
		}
		_, err = p.Apply(ctx, s.Snapshot(time.Now()), model.Everything())
		return closer(func() error { return nil }), err
	}
}

type closer func() error

func (c closer) Close() error { return c() }

// kubeProxy programs with the real one, in a process of its own.
func kubeProxy(mode string) loader {
	type open struct {
		Mode         string      `json:"mode"`
		Node         corev1.Node `json:"node"`
		ServiceCIDRs []string    `json:"serviceCIDRs"`
	}
	type sync struct {
		Services []corev1.Service            `json:"services"`
		Slices   []discoveryv1.EndpointSlice `json:"slices"`
	}
	return func(ctx context.Context, node *nettest.Host, o objects, peer string) (io.Closer, error) {
		p, err := node.Start(ctx, []string{peer})
		if err != nil {
			return nil, err
		}
		enc, dec := json.NewEncoder(p.Stdin), json.NewDecoder(p.Stdout)
		for _, request := range []any{
			map[string]any{"open": open{mode, o.node, []string{serviceCIDRs[0].String()}}}, map[string]any{"sync": sync{o.services, o.slices}},
		} {
			var answer struct{ Error string }
			err := enc.Encode(request)
			if err == nil {
				err = dec.Decode(&answer)
			}
			if err == nil && answer.Error != "" {
				err = errors.New(answer.Error)
			}
			if err != nil {
				return nil, errors.Join(fmt.Errorf("kube-proxy: %w: %s", err, p.Stderr()), p.Stop(time.Second))
			}
		}
		return closer(func() error { return p.Stop(time.Second) }), nil
	}
}

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
