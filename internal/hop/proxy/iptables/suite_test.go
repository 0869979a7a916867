package iptables

import (
	"bytes"
	"context"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/model"
)

var serviceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}

// host is a host for hoptest whose tools may fail before they did anything, after some COMMITs, or after all.
type host struct {
	door   kipt.Door
	refuse func() error
}

func (h *host) Start(t *testing.T) hop.Hop {
	return proxy.New(proxy.Options{Node: hoptest.NodeA, ServiceCIDRs: serviceCIDRs,
		Backend: New(func() (kipt.Door, error) { return &flaky{h.door, h}, nil }, nil)})
}

func (h *host) FailWrites(refuse func() error) { h.refuse = refuse }

func (h *host) State(t *testing.T) string {
	r, err := read(t.Context(), h.door, proxy.Node{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}

// flaky passes on to the host's door and fails when the host says so.
type flaky struct {
	kipt.Door
	h *host
}

func (f *flaky) Restore(ctx context.Context, fam kipt.Family, input []byte) error {
	if f.h.refuse == nil {
		return f.Door.Restore(ctx, fam, input)
	}
	if err := f.h.refuse(); err != nil {
		return err
	}
	const end = "COMMIT\n"
	for len(input) > 0 {
		n := bytes.Index(input, []byte(end)) + len(end)
		if err := f.Door.Restore(ctx, fam, input[:n]); err != nil {
			return err
		}
		if err := f.h.refuse(); err != nil {
			return err // this much was carried out
		}
		input = input[n:]
	}
	return nil
}

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

func TestTheSuiteOnAFakeHost(t *testing.T) {
	s := subject(func(t *testing.T) hoptest.Host { return &host{door: kipt.NewFake()} })
	s.Steps = 200
	hoptest.Run(t, s)
}

func TestTheSuiteOnAFakeHostWithSmallCommits(t *testing.T) {
	s := subject(func(t *testing.T) hoptest.Host { return &host{door: &kipt.Fake{Chains: 3}} })
	s.Steps = 100
	hoptest.Run(t, s)
}
