// Package hoptest is the suite that every hop, every backend of a hop and every fake passes: what is declared is what the
// rules do, what was applied is what is read back, changes between any two snapshots are as good as a full apply, and
// Remove leaves an empty host. A hop brings its own cases; those for Services are in ServiceCases.
package hoptest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
)

// Case is a snapshot of a cluster and flows to ask about.
type Case struct {
	Name     string
	Snapshot *model.Snapshot
	Flows    []flow.Flow
}

// Host is one host, real or fake, on which hops are tried. It begins empty.
type Host interface {
	// Start returns a hop that knows nothing yet, as after a restart of the process. The old one is not used again.
	Start(t *testing.T) hop.Hop
	// State is the hop's live state on the host as text, "" when there is none.
	State(t *testing.T) string
	// FailWrites makes writes to the host fail when refuse returns an error; nil ends it.
	FailWrites(refuse func() error)
}

// Subject is a hop to be tested.
type Subject struct {
	Cases []Case
	// NewHost makes an empty host.
	NewHost func(t *testing.T) Host
	// Rendered is what the rules that the hop would write do with a flow, without any host. Nil when the hop has none.
	Rendered func(s *model.Snapshot, f flow.Flow) flow.Verdict
	// Wanted is the state that a host should have, as State tells it.
	Wanted func(s *model.Snapshot) string
	// Steps is how many random changes between cases are tried; 0 = each case once after each other one.
	Steps int
	// Every asks a live host about one flow in so many, because each answer reads the whole state; 0 = all.
	Every int
}

// errInjected is what a write fails with in the sequences.
var errInjected = errors.New("injected failure")

// Run runs the whole suite.
func Run(t *testing.T, s Subject) {
	if len(s.Cases) == 0 {
		t.Fatal("no cases")
	}
	t.Run("declared is what the rendered rules do", s.declaredIsRendered)
	t.Run("what is applied is read back and does what is declared", s.appliedIsReadBack)
	t.Run("applying twice changes nothing", s.twiceIsOnce)
	t.Run("a restart changes nothing", s.restartChangesNothing)
	t.Run("any case becomes any other, with writes that fail", s.anyToAny)
	t.Run("remove leaves an empty host", s.removeLeavesNothing)
}

func (s Subject) declaredIsRendered(t *testing.T) {
	if s.Rendered == nil {
		return // the hop has no rules apart from the host
	}
	h := s.NewHost(t).Start(t)
	for _, c := range s.Cases {
		t.Run(c.Name, func(t *testing.T) {
			for _, f := range c.Flows {
				agree(t, f, h.Declared(c.Snapshot, f), "rendered", s.Rendered(c.Snapshot, f))
			}
		})
	}
}

// agree compares what is declared with what something else says.
func agree(t *testing.T, f flow.Flow, declared flow.Verdict, who string, other flow.Verdict) {
	t.Helper()
	if !declared.Same(other) {
		t.Errorf("%s:\n\tdeclared %s (%s)\n\t%s %s (%s)", f, declared, declared.Why, who, other, other.Why)
	}
}

func (s Subject) appliedIsReadBack(t *testing.T) {
	for _, c := range s.Cases {
		t.Run(c.Name, func(t *testing.T) {
			host := s.NewHost(t)
			h := host.Start(t)
			apply(t, h, nil, c.Snapshot)
			same(t, "state after the first apply", s.Wanted(c.Snapshot), host.State(t))
			for i, f := range c.Flows {
				if s.Every > 0 && i%s.Every != 0 {
					continue
				}
				got, err := h.Programmed(t.Context(), f)
				if err != nil {
					t.Fatal(err)
				}
				agree(t, f, h.Declared(c.Snapshot, f), "programmed", got)
			}
		})
	}
}

// apply brings a hop from one snapshot to another and returns the report.
func apply(t *testing.T, h hop.Hop, from, to *model.Snapshot) hop.Report {
	t.Helper()
	r, err := h.Apply(t.Context(), to, model.Diff(from, to))
	if err != nil {
		t.Fatalf("apply: %v", err)
	}
	return r
}

// same compares two states and shows the first lines that differ.
func same(t *testing.T, what, want, got string) {
	t.Helper()
	if want == got {
		return
	}
	t.Fatalf("%s is not as wanted:\n%s", what, firstDifference(want, got))
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\n\twant %s\n\tgot  %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("want %d lines, got %d:\n%s", len(w), len(g), strings.Join(append(w[min(len(w), len(g)):], g[min(len(w), len(g)):]...), "\n"))
}

func (s Subject) twiceIsOnce(t *testing.T) {
	host := s.NewHost(t)
	h := host.Start(t)
	var last *model.Snapshot
	for _, c := range s.Cases {
		apply(t, h, last, c.Snapshot)
		before := host.State(t)
		if r := apply(t, h, c.Snapshot, c.Snapshot); r.Changed != 0 {
			t.Errorf("%s: applying the same snapshot again wrote %d objects", c.Name, r.Changed)
		}
		if r := apply(t, h, nil, c.Snapshot); r.Changed != 0 {
			t.Errorf("%s: applying the same snapshot again as a whole wrote %d objects", c.Name, r.Changed)
		}
		same(t, c.Name+": state after applying twice", before, host.State(t))
		last = c.Snapshot
	}
}

func (s Subject) restartChangesNothing(t *testing.T) {
	host := s.NewHost(t)
	h := host.Start(t)
	for _, c := range s.Cases {
		apply(t, h, nil, c.Snapshot)
		h = host.Start(t)
		if r := apply(t, h, nil, c.Snapshot); r.Changed != 0 {
			t.Errorf("%s: a restarted hop wrote %d objects", c.Name, r.Changed)
		}
		same(t, c.Name+": state after a restart", s.Wanted(c.Snapshot), host.State(t))
	}
}

// anyToAny walks through the cases so that each follows each other one. One write in ten fails; the apply is then
// repeated with everything, as an agent does. The state must be that of a full apply after each step.
func (s Subject) anyToAny(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	host := s.NewHost(t)
	h := host.Start(t)
	host.FailWrites(func() error {
		if rnd.IntN(10) == 0 {
			return errInjected
		}
		return nil
	})
	wanted := map[string]string{}
	for _, c := range s.Cases {
		wanted[c.Name] = s.Wanted(c.Snapshot)
	}
	var have *model.Snapshot
	failed := 0
	for _, c := range s.sequence(rnd) {
		for try := 0; ; try++ {
			_, err := h.Apply(t.Context(), c.Snapshot, model.Diff(have, c.Snapshot))
			if err == nil {
				break
			}
			if !errors.Is(err, errInjected) || try > 50 {
				t.Fatalf("%s: apply: %v", c.Name, err)
			}
			have, failed = nil, failed+1
		}
		have = c.Snapshot
		same(t, "state after "+c.Name, wanted[c.Name], host.State(t))
	}
	if failed == 0 {
		t.Error("no write failed: the host does not inject failures")
	}
	host.FailWrites(nil)
}

// sequence returns the order of cases: a walk over all pairs, or as many random ones as Steps.
func (s Subject) sequence(rnd *rand.Rand) []Case {
	var out []Case
	if s.Steps > 0 {
		for range s.Steps {
			out = append(out, s.Cases[rnd.IntN(len(s.Cases))])
		}
		return out
	}
	for _, a := range s.Cases {
		for _, b := range s.Cases {
			out = append(out, a, b)
		}
	}
	return out
}

func (s Subject) removeLeavesNothing(t *testing.T) {
	host := s.NewHost(t)
	h := host.Start(t)
	if err := h.Remove(t.Context()); err != nil {
		t.Fatalf("remove on an empty host: %v", err)
	}
	for _, c := range s.Cases {
		apply(t, h, nil, c.Snapshot)
		fresh := host.Start(t) // knows the marks, nothing else
		if err := fresh.Remove(t.Context()); err != nil {
			t.Fatalf("%s: remove: %v", c.Name, err)
		}
		if left := host.State(t); left != "" {
			t.Fatalf("%s: left behind:\n%s", c.Name, left)
		}
		h = host.Start(t)
	}
}
