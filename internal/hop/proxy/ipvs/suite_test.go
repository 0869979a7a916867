package ipvs

import (
	"context"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// host is a host for hoptest whose kernel may refuse writes.
type host struct {
	proxytest.Host
	nft  knft.Kernel
	ipvs kipvs.Kernel
}

func hostOf(c proxy.Config, nft knft.Kernel, ipvs kipvs.Kernel) *host {
	h := &host{Host: proxytest.Host{Config: c}, nft: nft, ipvs: ipvs}
	h.Open = func() proxy.Backend { return h.backend() }
	return h
}

func fakeHost(c proxy.Config) *host { return hostOf(c, knft.NewFake(), kipvs.NewFake()) }

func (h *host) backend() *Backend {
	return New(Doors{NFT: func() (knft.Kernel, error) { return flakyNFT{h.nft, h}, nil }, IPVS: func() (kipvs.Kernel, error) { return flakyIPVS{h.ipvs, h}, nil }}, nil)
}

type flakyNFT struct {
	knft.Kernel
	h *host
}

func (f flakyNFT) Apply(ctx context.Context, ops []knft.Op) error {
	return f.h.Write(func() error { return f.Kernel.Apply(ctx, ops) })
}
func (f flakyNFT) Close() error { return nil }

type flakyIPVS struct {
	kipvs.Kernel
	h *host
}

// Apply stops in the midst of the operations, as IPVS does.
func (f flakyIPVS) Apply(ctx context.Context, ops []kipvs.Op) error {
	for i := range ops {
		if err := f.h.Write(func() error { return f.Kernel.Apply(ctx, ops[i:i+1]) }); err != nil {
			return err
		}
	}
	return nil
}
func (f flakyIPVS) Close() error { return nil }

var mode = proxytest.Mode{
	Render: func(p *proxy.Plan) proxy.Ruleset { return Render(p) },
	Host:   func(_ *testing.T, c proxy.Config) hoptest.Host { return fakeHost(c) },
}

func TestTheSuiteOnAFakeKernel(t *testing.T) {
	t.Parallel()
	mode.Suite(t, proxytest.Configs(), proxytest.Length{Steps: 300}, proxytest.Length{Steps: 120, Every: 7})
}
