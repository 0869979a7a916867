package ebpf

import (
	"context"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	"github.com/podway/podway/internal/kernel/bpf"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// host is a host for hoptest whose kernel may refuse writes, before or after it carried them out.
type host struct {
	open   func() (bpf.Kernel, error)
	rules  knft.Kernel
	config proxy.Config
	refuse func() error
}

func (h *host) backend() *Backend {
	return New(Host{
		Open: func() (bpf.Kernel, error) {
			k, err := h.open()
			return &flaky{k, h}, err
		},
		Packets: nft.New(func() (knft.Kernel, error) { return &flakyRules{h.rules, h}, nil }),
		Netns:   func() (uint64, error) { return 1, nil },
	})
}

func (h *host) Start(t *testing.T) hop.Hop {
	c := h.config
	return proxy.New(proxy.Options{Node: c.Node, ServiceCIDRs: c.ServiceCIDRs, Settings: c.Settings, Host: c.Host, Backend: h.backend()})
}

func (h *host) FailWrites(refuse func() error) { h.refuse = refuse }

func (h *host) State(t *testing.T) string {
	r, err := h.backend().Read(t.Context(), proxy.Node{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}

// either lets a write fail before it is carried out, or afterwards, as if the answer got lost.
func (h *host) either(write func() error) error {
	if h.refuse == nil {
		return write()
	}
	if err := h.refuse(); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return h.refuse()
}

type flaky struct {
	bpf.Kernel
	h *host
}

func (f *flaky) Prepare(ctx context.Context, sizes map[string]int) error {
	return f.h.either(func() error { return f.Kernel.Prepare(ctx, sizes) })
}

func (f *flaky) Apply(ctx context.Context, ops []bpf.Op) error {
	return f.h.either(func() error { return f.Kernel.Apply(ctx, ops) })
}

func (f *flaky) Attach(ctx context.Context) (n int, err error) {
	err = f.h.either(func() error {
		n, err = f.Kernel.Attach(ctx)
		return err
	})
	return n, err
}

type flakyRules struct {
	knft.Kernel
	h *host
}

func (f *flakyRules) Apply(ctx context.Context, ops []knft.Op) error {
	return f.h.either(func() error { return f.Kernel.Apply(ctx, ops) })
}
func (f *flakyRules) Close() error { return nil }

func subject(c proxy.Config, newHost func(t *testing.T) hoptest.Host) hoptest.Subject {
	var last *model.Snapshot
	var rules *Ruleset
	want := func(s *model.Snapshot) *Ruleset {
		if s != last {
			p := c.Decide(s)
			last, rules = s, Render(p, nft.Render(p))
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
			s := subject(c.Config, func(*testing.T) hoptest.Host {
				k := bpf.NewFake(programs)
				return &host{open: func() (bpf.Kernel, error) { return k, nil }, rules: knft.NewFake(), config: c.Config}
			})
			s.Steps = 300
			if i > 0 {
				s.Steps, s.Every = 30, 7
			}
			hoptest.Run(t, s)
		})
	}
}
