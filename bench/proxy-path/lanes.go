package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/ebpf"
	"github.com/podway/podway/internal/hop/proxy/iptables"
	"github.com/podway/podway/internal/hop/proxy/ipvs"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/nettest/kubeproxy"
)

const direct = "direct"

// lanes are what is measured, in the order of the table.
var lanes = []struct {
	name string
	load loader
}{
	{direct, nil},
	{"podway-nft", podway(func(h *nettest.Host) (proxy.Backend, error) { return nft.In(h.NS()), nil })},
	{"podway-iptables", podway(func(h *nettest.Host) (proxy.Backend, error) { return iptables.In(h.NS()), nil })},
	{"podway-ebpf", podway(func(h *nettest.Host) (proxy.Backend, error) {
		return ebpf.In(h.NS(), ebpf.Paths{Cgroup: h.Cgroup(), BPF: h.BPF()}), nil
	})},
	{"kube-proxy-nft", kubeProxy("nftables")},
	{"kube-proxy-iptables", kubeProxy("iptables")},
}

// inMachine is what an emulated machine measures.
var inMachine = []string{direct, "podway-nft", "podway-iptables", "podway-ipvs"}

// loader programs a node; the closer stops what does so.
type loader func(ctx context.Context, node *nettest.Host, o objects, peer string) (io.Closer, error)

var loaders = func() map[string]loader {
	m := map[string]loader{}
	for _, l := range lanes {
		m[l.name] = l.load
	}
	m["podway-ipvs"] = podway(func(h *nettest.Host) (proxy.Backend, error) { return ipvs.In(h.NS(), slog.Default()), nil })
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
			s.Put(cluster.Convert(o.services[i]))
			s.Put(cluster.Convert(o.slices[i]))
		}
		_, err = p.Apply(ctx, s.Snapshot(time.Now()), model.Everything())
		return closer(func() error { return nil }), err
	}
}

type closer func() error

func (c closer) Close() error { return c() }

// kubeProxy programs with the real one, in a process of its own.
func kubeProxy(mode string) loader {
	return func(ctx context.Context, node *nettest.Host, o objects, peer string) (io.Closer, error) {
		p, err := kubeproxy.Start(ctx, node, peer, kubeproxy.Open{Mode: mode, Node: &o.node, ServiceCIDRs: []string{serviceCIDRs[0].String()}})
		if err != nil {
			return nil, err
		}
		if _, err := p.Sync(&kubeproxy.Sync{Services: o.services, Slices: o.slices}); err != nil {
			return nil, errors.Join(err, p.Stop(time.Second))
		}
		return closer(func() error { return p.Stop(time.Second) }), nil
	}
}
