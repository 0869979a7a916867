package iptables

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
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
	_, d := newHost(t, v)
	return d
}

func newHost(t *testing.T, v kipt.Variant) (*netns.NS, *kipt.Exec) {
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
	return ns, d
}

func TestTheSuiteOnTheKernel(t *testing.T) {
	for _, v := range variants {
		t.Run(string(v), func(t *testing.T) {
			s := on(func(t *testing.T) kipt.Door { return newDoor(t, v) }).Subject(proxytest.Default())
			s.Steps, s.Every = 60, 61
			hoptest.Run(t, s)
		})
	}
}

// What is wanted in other configurations is read back as well: the tools print each rule as it was written.
func TestEveryConfigurationIsReadBack(t *testing.T) {
	for _, v := range variants {
		for _, c := range configs() {
			d := newDoor(t, v)
			b := New(func() (kipt.Door, error) { return d, nil }, nil)
			for _, k := range hoptest.ServiceCases() {
				if !strings.Contains(k.Name, "exposed") && !strings.Contains(k.Name, "Local") && !strings.Contains(k.Name, "range") {
					continue
				}
				p := c.Decide(k.Snapshot)
				if _, err := b.Apply(t.Context(), p); err != nil {
					t.Fatalf("%s, %s, %s: %v", v, c.Name, k.Name, err)
				}
				got, err := read(t.Context(), d, p.Node)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(Render(p).Text(), got.Text()); diff != "" {
					t.Errorf("%s, %s, %s: want - got +:\n%s", v, c.Name, k.Name, diff)
				}
			}
		}
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
