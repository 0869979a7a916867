package nft

import (
	"context"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// hostOf is a host for hoptest whose kernel may refuse writes.
func hostOf(c proxy.Config, k knft.Kernel) hoptest.Host {
	h := &proxytest.Host{Config: c}
	h.Open = func() proxy.Backend { return New(func() (knft.Kernel, error) { return &flaky{k, h}, nil }) }
	return h
}

// flaky passes on to a kernel that outlives the backend, and refuses writes when the host says so.
type flaky struct {
	knft.Kernel
	h *proxytest.Host
}

func (f *flaky) Apply(ctx context.Context, ops []knft.Op) error {
	return f.h.Write(func() error { return f.Kernel.Apply(ctx, ops) })
}
func (f *flaky) Close() error { return nil }

var mode = proxytest.Mode{
	Render: func(p *proxy.Plan) proxy.Ruleset { return Render(p) },
	Cases:  append(hoptest.ServiceCases(), hoptest.MaglevCases()...),
	Host:   func(_ *testing.T, c proxy.Config) hoptest.Host { return hostOf(c, knft.NewFake()) },
}

func TestTheSuiteOnAFakeKernel(t *testing.T) {
	t.Parallel()
	mode.Suite(t, proxytest.Configs(), proxytest.Length{Steps: 500}, proxytest.Length{Steps: 50, Every: 7})
}
