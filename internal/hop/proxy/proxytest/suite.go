package proxytest

import (
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/model"
)

// Host is a host for hoptest with the doors of one backend. Its writes may be refused.
type Host struct {
	Config proxy.Config
	// Open opens the backend as a new process that knows nothing would; its doors write through Write.
	Open func() proxy.Backend

	refuse func() error
}

// Start implements hoptest.Host.
func (h *Host) Start(*testing.T) hop.Hop {
	c := h.Config
	return proxy.New(proxy.Options{Node: c.Node, ServiceCIDRs: c.ServiceCIDRs, Settings: c.Settings, Host: c.Host, Backend: h.Open()})
}

// State implements hoptest.Host.
func (h *Host) State(t *testing.T) string {
	t.Helper()
	r, err := h.Open().Read(t.Context(), proxy.Node{})
	if err != nil {
		t.Fatal(err)
	}
	return r.Text()
}

// FailWrites implements hoptest.Host.
func (h *Host) FailWrites(refuse func() error) { h.refuse = refuse }

// Refuse returns the error with which a write is to fail now, or nil.
func (h *Host) Refuse() error {
	if h.refuse == nil {
		return nil
	}
	return h.refuse()
}

// Write carries a write out, unless it is to fail before, or afterwards, as if the answer got lost.
func (h *Host) Write(write func() error) error {
	if err := h.Refuse(); err != nil {
		return err
	}
	if err := write(); err != nil {
		return err
	}
	return h.Refuse()
}

// Mode is a backend for the suite.
type Mode struct {
	Render func(*proxy.Plan) proxy.Ruleset
	Cases  []hoptest.Case // nil = those of all backends
	// Host makes a new host, whose kernel or tools are fakes unless the test is about the real ones.
	Host func(*testing.T, proxy.Config) hoptest.Host
}

// Subject is the mode with a configuration.
func (m *Mode) Subject(c proxy.Config) hoptest.Subject {
	var last *model.Snapshot
	var rules proxy.Ruleset
	want := func(s *model.Snapshot) proxy.Ruleset {
		if s != last {
			last, rules = s, m.Render(c.Decide(s))
		}
		return rules
	}
	cases := m.Cases
	if cases == nil {
		cases = hoptest.ServiceCases()
	}
	return hoptest.Subject{
		Cases:    cases,
		NewHost:  func(t *testing.T) hoptest.Host { return m.Host(t, c) },
		Rendered: func(s *model.Snapshot, f flow.Flow) flow.Verdict { return want(s).Eval(f) },
		Wanted:   func(s *model.Snapshot) string { return want(s).Text() },
	}
}

// Length is how much of the random part of hoptest's suite is run.
type Length struct{ Steps, Every int }

// Suite runs hoptest's suite for each configuration: the first, which is the default one, at length, the others briefly.
func (m *Mode) Suite(t *testing.T, configs []Named, long, brief Length) {
	for i, c := range configs {
		t.Run(c.Name, func(t *testing.T) {
			s := m.Subject(c.Config)
			s.Steps, s.Every = long.Steps, long.Every
			if i > 0 {
				s.Steps, s.Every = brief.Steps, brief.Every
			}
			hoptest.Run(t, s)
		})
	}
}
