package nft

import (
	"context"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// host is a host for hoptest whose kernel may refuse writes, before or after it carried them out.
type host struct {
	kernel knft.Kernel
	refuse func() error
	tables func() []*knft.Table // of all names, where the kernel can tell
	config proxy.Config
}

func (h *host) Start(t *testing.T) hop.Hop {
	c := h.config
	return proxy.New(proxy.Options{Node: c.Node, ServiceCIDRs: c.ServiceCIDRs, Settings: c.Settings, Host: c.Host,
		Backend: New(func() (knft.Kernel, error) { return &flaky{h}, nil })})
}

func (h *host) FailWrites(refuse func() error) { h.refuse = refuse }

func (h *host) State(t *testing.T) string {
	r, err := read(t.Context(), h.kernel, proxy.Node{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}

// flaky passes on to the host's kernel and refuses writes when the host says so.
type flaky struct{ h *host }

func (f *flaky) Apply(ctx context.Context, ops []knft.Op) error {
	if f.h.refuse == nil {
		return f.h.kernel.Apply(ctx, ops)
	}
	if err := f.h.refuse(); err != nil {
		return err
	}
	if err := f.h.kernel.Apply(ctx, ops); err != nil {
		return err
	}
	return f.h.refuse() // carried out, but the answer got lost
}

func (f *flaky) Read(ctx context.Context, fam knft.Family, name string) (*knft.Table, error) {
	return f.h.kernel.Read(ctx, fam, name)
}
func (f *flaky) Look(ctx context.Context, fam knft.Family, name string) (*knft.Table, error) {
	return f.h.kernel.Look(ctx, fam, name)
}
func (f *flaky) Generation(ctx context.Context) (uint32, error) { return f.h.kernel.Generation(ctx) }
func (f *flaky) Close() error                                   { return nil }

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
		Cases:    append(hoptest.ServiceCases(), hoptest.MaglevCases()...),
		NewHost:  newHost,
		Rendered: func(s *model.Snapshot, f flow.Flow) flow.Verdict { return want(s).Eval(f) },
		Wanted:   func(s *model.Snapshot) string { return want(s).Text() },
	}
}

func TestTheSuiteOnAFakeKernel(t *testing.T) {
	for i, c := range proxytest.Configs() {
		t.Run(c.Name, func(t *testing.T) {
			s := subject(c.Config, func(t *testing.T) hoptest.Host { return &host{kernel: knft.NewFake(), config: c.Config} })
			s.Steps = 500
			if i > 0 {
				s.Steps, s.Every = 50, 7
			}
			hoptest.Run(t, s)
		})
	}
}
