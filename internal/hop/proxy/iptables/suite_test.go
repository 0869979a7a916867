package iptables

import (
	"bytes"
	"context"
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// hostOf is a host for hoptest whose tools may fail before they did anything, after some COMMITs, or after all.
func hostOf(c proxy.Config, d kipt.Door) hoptest.Host {
	h := &proxytest.Host{Config: c}
	h.Open = func() proxy.Backend { return New(func() (kipt.Door, error) { return &flaky{d, h}, nil }, nil) }
	return h
}

// flaky passes on to the host's door and fails when the host says so.
type flaky struct {
	kipt.Door
	h *proxytest.Host
}

func (f *flaky) Restore(ctx context.Context, fam kipt.Family, input []byte) error {
	if err := f.h.Refuse(); err != nil {
		return err
	}
	const end = "COMMIT\n"
	for len(input) > 0 {
		n := bytes.Index(input, []byte(end)) + len(end)
		if err := f.Door.Restore(ctx, fam, input[:n]); err != nil {
			return err
		}
		if err := f.h.Refuse(); err != nil {
			return err // this much was carried out
		}
		input = input[n:]
	}
	return nil
}

// on is the mode with a door of each host's own.
func on(door func(*testing.T) kipt.Door) *proxytest.Mode {
	return &proxytest.Mode{
		Render: func(p *proxy.Plan) proxy.Ruleset { return Render(p) },
		Host:   func(t *testing.T, c proxy.Config) hoptest.Host { return hostOf(c, door(t)) },
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
	fake := on(func(*testing.T) kipt.Door { return kipt.NewFake() })
	fake.Suite(t, configs(), proxytest.Length{Steps: 200, Every: 7}, proxytest.Length{Steps: 40, Every: 23})
}

func TestTheSuiteOnAFakeHostWithSmallCommits(t *testing.T) {
	s := on(func(*testing.T) kipt.Door { return &kipt.Fake{Chains: 3} }).Subject(proxytest.Default())
	s.Steps, s.Every = 100, 11
	hoptest.Run(t, s)
}
