package ebpf

import (
	"context"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	"github.com/podway/podway/internal/kernel/bpf"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// hostOf is a host for hoptest whose kernel may refuse writes.
func hostOf(c proxy.Config, open func() (bpf.Kernel, error), rules knft.Kernel) hoptest.Host {
	h := &proxytest.Host{Config: c}
	h.Open = func() proxy.Backend {
		return New(Host{
			Open: func() (bpf.Kernel, error) {
				k, err := open()
				return &flaky{k, h}, err
			},
			Packets: nft.New(func() (knft.Kernel, error) { return &flakyRules{rules, h}, nil }),
			Netns:   func() (uint64, error) { return 1, nil },
		})
	}
	return h
}

type flaky struct {
	bpf.Kernel
	h *proxytest.Host
}

func (f *flaky) Prepare(ctx context.Context, sizes map[string]int) error {
	return f.h.Write(func() error { return f.Kernel.Prepare(ctx, sizes) })
}

func (f *flaky) Apply(ctx context.Context, ops []bpf.Op) error {
	return f.h.Write(func() error { return f.Kernel.Apply(ctx, ops) })
}

func (f *flaky) Attach(ctx context.Context) (n int, err error) {
	err = f.h.Write(func() error {
		n, err = f.Kernel.Attach(ctx)
		return err
	})
	return n, err
}

type flakyRules struct {
	knft.Kernel
	h *proxytest.Host
}

func (f *flakyRules) Apply(ctx context.Context, ops []knft.Op) error {
	return f.h.Write(func() error { return f.Kernel.Apply(ctx, ops) })
}
func (f *flakyRules) Close() error { return nil }

var mode = proxytest.Mode{
	Render: func(p *proxy.Plan) proxy.Ruleset { return Render(p, nft.Render(p)) },
	Host: func(_ *testing.T, c proxy.Config) hoptest.Host {
		k := bpf.NewFake(programs)
		return hostOf(c, func() (bpf.Kernel, error) { return k, nil }, knft.NewFake())
	},
}

func TestTheSuiteOnAFakeKernel(t *testing.T) {
	mode.Suite(t, proxytest.Configs(), proxytest.Length{Steps: 300}, proxytest.Length{Steps: 30, Every: 7})
}
