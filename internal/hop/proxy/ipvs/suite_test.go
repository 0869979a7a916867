package ipvs

import (
	"context"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// host is a host for hoptest whose kernel may refuse writes, before or after it carried them out.
type host struct {
	nft    knft.Kernel
	ipvs   kipvs.Kernel
	refuse func() error
	config proxy.Config
}

func fakeHost(c proxy.Config) *host {
	return &host{nft: knft.NewFake(), ipvs: kipvs.NewFake(), config: c}
}

func (h *host) backend() *Backend {
	return New(Doors{NFT: func() (knft.Kernel, error) { return flakyNFT{h.nft, h}, nil }, IPVS: func() (kipvs.Kernel, error) { return flakyIPVS{h.ipvs, h}, nil }}, nil)
}

func (h *host) Start(t *testing.T) hop.Hop {
	c := h.config
	return proxy.New(proxy.Options{Node: c.Node, ServiceCIDRs: c.ServiceCIDRs, Settings: c.Settings, Host: c.Host, Backend: h.backend()})
}

func (h *host) FailWrites(refuse func() error) { h.refuse = refuse }

func (h *host) State(t *testing.T) string {
	t.Helper()
	r, err := h.backend().Read(t.Context(), proxy.Node{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}

// twice refuses before or after a write.
func (h *host) twice(write func() error) error {
	if h.refuse == nil {
		return write()
	}
	if err := h.refuse(); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return h.refuse() // carried out, but the answer got lost
}

type flakyNFT struct {
	knft.Kernel
	h *host
}

func (f flakyNFT) Apply(ctx context.Context, ops []knft.Op) error {
	return f.h.twice(func() error { return f.Kernel.Apply(ctx, ops) })
}
func (f flakyNFT) Close() error { return nil }

type flakyIPVS struct {
	kipvs.Kernel
	h *host
}

// Apply stops in the midst of the operations, as IPVS does.
func (f flakyIPVS) Apply(ctx context.Context, ops []kipvs.Op) error {
	for i := range ops {
		if err := f.h.twice(func() error { return f.Kernel.Apply(ctx, ops[i:i+1]) }); err != nil {
			return err
		}
	}
	return nil
}
func (f flakyIPVS) Close() error { return nil }

func subject(c proxy.Config, newHost func(t *testing.T) hoptest.Host) hoptest.Subject {
	var last *model.Snapshot
	var rules *Ruleset
	want := func(s *model.Snapshot) *Ruleset {
		if s != last {
			last, rules = s, Render(c.Decide(s))
		}
		return rules
	}
	return hoptest.Subject{
		Cases:    hoptest.ServiceCases(),
		NewHost:  newHost,
		Rendered: func(s *model.Snapshot, f flow.Flow) flow.Verdict { return want(s).Eval(f) },
		Wanted:   func(s *model.Snapshot) string { return want(s).Text() },
	}
}

func TestTheSuiteOnAFakeKernel(t *testing.T) {
	for i, c := range proxytest.Configs() {
		t.Run(c.Name, func(t *testing.T) {
			s := subject(c.Config, func(t *testing.T) hoptest.Host { return fakeHost(c.Config) })
			s.Steps = 300
			if i > 0 {
				s.Steps, s.Every = 120, 7
			}
			hoptest.Run(t, s)
		})
	}
}
