package iptables

import (
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/nettest"
)

// variants are those of the tools that the tests need, each with its tables in the kernel.
var variants = []kipt.Variant{kipt.NFT, kipt.Legacy}

func needTools(t *testing.T, v kipt.Variant) {
	t.Helper()
	thing := nettest.IPTables
	if v == kipt.Legacy {
		thing = nettest.IPTablesLegacy
	}
	nettest.Need(t, nettest.Root, nettest.Netns, thing)
}

// newDoor opens the tables of a network namespace of its own.
func newDoor(t *testing.T, v kipt.Variant) *kipt.Exec {
	t.Helper()
	needTools(t, v)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	d, err := kipt.Open(ns, v)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

func TestTheSuiteOnTheKernel(t *testing.T) {
	for _, v := range variants {
		t.Run(string(v), func(t *testing.T) {
			s := subject(func(t *testing.T) hoptest.Host { return &host{door: newDoor(t, v)} })
			s.Steps, s.Every = 60, 61
			hoptest.Run(t, s)
		})
	}
}

func TestTheKernelSupportsAllThatIsUsed(t *testing.T) {
	for _, v := range variants {
		d := newDoor(t, v)
		if err := New(func() (kipt.Door, error) { return d, nil }, nil).Supported(t.Context()); err != nil {
			t.Fatal(err)
		}
		r, err := read(t.Context(), d, proxy.Node{})
		if err != nil || r.Text() != "" {
			t.Errorf("%s: trying left %s, %v", v, r.Text(), err)
		}
	}
}
