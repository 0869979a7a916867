package oracle

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/scenario"
)

func TestACaseIsTheSameForTheSameNumbers(t *testing.T) {
	for i := range 20 {
		if !bytes.Equal(Generate(7, i).Text(), Generate(7, i).Text()) {
			t.Fatalf("case %d differs from itself", i)
		}
	}
	if bytes.Equal(Generate(7, 1).Text(), Generate(7, 2).Text()) || bytes.Equal(Generate(7, 1).Text(), Generate(8, 1).Text()) {
		t.Error("other numbers give the same case")
	}
}

func TestEveryCaseIsAScenarioAndItsStepsAreItsStates(t *testing.T) {
	for i := range 25 {
		c := Generate(1, i)
		f, err := c.file()
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Text())
		}
		if len(f.Steps) != len(c.Steps) {
			t.Fatalf("case %d: %d steps of %d", i, len(f.Steps), len(c.Steps))
		}
		for n := range c.Steps { // a chain of patches leads where the state written at once does
			alone := &Case{Name: "alone", About: "One state.", Steps: []Step{{Objects: c.Steps[n].Objects}}}
			g, err := alone.file()
			if err != nil {
				t.Fatal(err)
			}
			if d := model.Diff(g.Steps[0].State.Snapshot, f.Steps[n].State.Snapshot); differ(g.Steps[0].State, f.Steps[n].State) {
				t.Fatalf("case %d step %d: the patches lead elsewhere: %v\n%s", i, n, d.Services, c.Text())
			}
		}
	}
}

// differ compares what is asked about two states, which follows from their Services and endpoints.
func differ(a, b *scenario.State) bool {
	x, y := Probes(a), Probes(b)
	if len(x) != len(y) {
		return true
	}
	for i := range x {
		if x[i].String() != y[i].String() || strings.Join(x[i].Allowed, " ") != strings.Join(y[i].Allowed, " ") || x[i].Sticky != y[i].Sticky {
			return true
		}
	}
	return false
}

func TestTheTopologyHasTheAddressesThatItSays(t *testing.T) {
	f, err := bare().file()
	if err != nil {
		t.Fatal(err)
	}
	s := f.Steps[0].State.Snapshot
	for i := range backends {
		b := &backends[i]
		p := s.Pods.At(model.N("default", b.name))
		if p == nil || p.Node != b.node || p.HostNetwork != b.onHost() || len(p.Addrs) != 2 || p.Addrs[0].String() != b.v4 || p.Addrs[1].String() != b.v6 {
			t.Errorf("%s is %+v", b.name, p)
		}
	}
	for _, n := range []string{nodeA, nodeB} {
		if s.Nodes.At(n).Zone != zones[n] {
			t.Errorf("%s is in zone %q", n, s.Nodes.At(n).Zone)
		}
	}
}

func TestEveryDifferenceOnPurposeIsInTheDocument(t *testing.T) {
	doc, err := os.ReadFile("../../docs/differences.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, d := range Differences() {
		known[d.Key] = true
		if !strings.Contains(string(doc), "| `"+d.Key+"`:") {
			t.Errorf("docs/differences.md has no row `%s`", d.Key)
		}
	}
	section, _, _ := strings.Cut(string(doc), "\n## CoreDNS")
	for line := range strings.Lines(section) {
		if rest, ok := strings.CutPrefix(line, "| `"); ok {
			if key, _, _ := strings.Cut(rest, "`"); !known[key] && strings.HasPrefix(rest, key+"`:") {
				t.Errorf("row `%s` of docs/differences.md is no difference of the oracle", key)
			}
		}
	}
}

func TestACaseIsMadeAsSmallAsItCanBe(t *testing.T) {
	c := Generate(1, 4)
	keep := c.named("EndpointSlice")[0]
	small := shrink(t.Context(), c, func(_ context.Context, x *Case) bool {
		_, err := x.file()
		return err == nil && len(x.named("EndpointSlice")) > 0 && x.Steps[len(x.Steps)-1].Objects[keep] != nil || x == c
	})
	if len(small.Steps) != 1 || len(small.named("EndpointSlice")) > 1 {
		t.Errorf("%d steps, slices %v are left", len(small.Steps), small.named("EndpointSlice"))
	}
}
