package iptables

import (
	"bytes"
	"context"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/model"
)

// host is a host for hoptest whose tools may fail before they did anything, after some COMMITs, or after all.
type host struct {
	door   kipt.Door
	config proxy.Config
	refuse func() error
}

func (h *host) Start(t *testing.T) hop.Hop {
	c := h.config
	return proxy.New(proxy.Options{Node: c.Node, ServiceCIDRs: c.ServiceCIDRs, Settings: c.Settings, Host: c.Host,
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

func subject(c proxy.Config, newDoor func(t *testing.T) kipt.Door) hoptest.Subject {
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
		NewHost:  func(t *testing.T) hoptest.Host { return &host{door: newDoor(t), config: c} },
		Rendered: func(s *model.Snapshot, f flow.Flow) flow.Verdict { return want(s).Eval(f) },
		Wanted:   func(s *model.Snapshot) string { return want(s).Text() },
	}
}

// configs are those that every backend is tested with, and those of which only iptables has something to say.
func configs() []proxytest.Named {
	loopback := proxytest.Named{Name: "node ports at loopback too", Config: proxytest.Default()}
	loopback.Settings.NodePorts = proxy.NodePortAddresses{All: true, Loopback: true}
	mark := proxytest.Named{Name: "another mark", Config: proxytest.Default()}
	mark.Settings.MasqueradeMark = 1 << 20
	return append(proxytest.Configs(), loopback, mark)
}

func TestTheSuiteOnAFakeHost(t *testing.T) {
	for i, c := range configs() {
		t.Run(c.Name, func(t *testing.T) {
			s := subject(c.Config, func(*testing.T) kipt.Door { return kipt.NewFake() })
			s.Steps, s.Every = 200, 7
			if i > 0 {
				s.Steps, s.Every = 40, 23
			}
			hoptest.Run(t, s)
		})
	}
}

func TestTheSuiteOnAFakeHostWithSmallCommits(t *testing.T) {
	s := subject(proxytest.Default(), func(*testing.T) kipt.Door { return &kipt.Fake{Chains: 3} })
	s.Steps, s.Every = 100, 11
	hoptest.Run(t, s)
}
