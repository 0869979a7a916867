package nft

import (
	"context"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

var serviceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}

// host is a host for hoptest whose kernel may refuse writes, before or after it carried them out.
type host struct {
	kernel knft.Kernel
	refuse func() error
	tables func() []*knft.Table // of all names, where the kernel can tell
}

func (h *host) Start(t *testing.T) hop.Hop {
	return proxy.New(proxy.Options{Node: hoptest.NodeA, ServiceCIDRs: serviceCIDRs,
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

func subject(newHost func(t *testing.T) hoptest.Host) hoptest.Subject {
	want := func(s *model.Snapshot) *Ruleset {
		p := *proxy.Decide(s, hoptest.NodeA)
		p.ServiceCIDRs = serviceCIDRs
		return Render(&p)
	}
	return hoptest.Subject{
		Cases:    hoptest.ServiceCases(),
		NewHost:  newHost,
		Rendered: func(s *model.Snapshot, f flow.Flow) flow.Verdict { return want(s).Eval(f) },
		Wanted:   func(s *model.Snapshot) string { return want(s).Text() },
	}
}

func TestTheSuiteOnAFakeKernel(t *testing.T) {
	s := subject(func(t *testing.T) hoptest.Host { return &host{kernel: knft.NewFake()} })
	s.Steps = 500
	hoptest.Run(t, s)
}
