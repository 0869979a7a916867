package trace

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
)

// group is the steps of a hop that one line of text stands for.
type group struct {
	label string
	state State
	steps []ReportStep
}

// groups joins the steps of the same hop on the same side of the ingress, in the order in which they first appear.
func (r *Report) groups() []*group {
	var out []*group
	at := map[string]*group{}
	for _, st := range r.Steps {
		key := fmt.Sprint(st.leg, st.Hop)
		g := at[key]
		if g == nil {
			g = &group{label: st.Label, state: st.State}
			at[key] = g
			out = append(out, g)
		}
		g.steps = append(g.steps, st)
		if rank(st.State) > rank(g.state) {
			g.state = st.State
		}
	}
	return before(out)
}

// before says ok of the lines above the broken one, whose steps to other nodes would be asked only after it.
func before(all []*group) []*group {
	at := slices.IndexFunc(all, func(g *group) bool { return g.state == Broken })
	for _, g := range all[:max(at, 0)] {
		if g.state == WouldPass {
			g.state = OK
		}
	}
	return all
}

func rank(s State) int {
	return slices.Index([]State{OK, WouldPass, Unknown, WouldFail, Broken}, s)
}

// Colour is how Text marks a state; the zero Colour marks nothing.
type Colour struct{ Good, Bad, Dim, Off string }

// Terminal is the colours of an ANSI terminal.
var Terminal = Colour{Good: "\x1b[32m", Bad: "\x1b[31;1m", Dim: "\x1b[2m", Off: "\x1b[0m"}

// Text writes the report for people: one line a hop, more lines for the broken one.
func (r *Report) Text(w io.Writer, c Colour) {
	if r.Predicted {
		fmt.Fprintln(w, "predicted  from the objects alone: no node was looked at")
	}
	fmt.Fprintf(w, "from    %s\nto      %s\nresult  %s\n", r.From, r.To, r.Summary)
	if r.Note != "" {
		fmt.Fprintf(w, "note    %s\n", r.Note)
	}
	for i, g := range r.groups() {
		g.write(w, i+1, r.Predicted, c)
	}
	if r.Finding != nil {
		writeFinding(w, "cause   ", r.Finding, c)
	}
	for i := range r.Others {
		writeFinding(w, "also    ", &r.Others[i], Colour{})
	}
	for _, n := range r.NotChecked {
		fmt.Fprintf(w, "%snot checked%s: %s\n", c.Dim, c.Off, n)
	}
}

func (g *group) write(w io.Writer, n int, predicted bool, c Colour) {
	state, colour := string(g.state), ""
	switch {
	case g.state == Broken:
		state, colour = "BROKEN", c.Bad
	case g.state == OK && predicted:
		state, colour = "predicted", c.Dim
	case g.state == OK:
		colour = c.Good
	default:
		colour = c.Dim
	}
	off := c.Off
	if colour == "" {
		off = ""
	}
	fmt.Fprintf(w, "%2d %-8s %s%-10s%s  %s%s\n", n, g.label, colour, state, off, g.details(), g.layers(predicted))
	for _, st := range g.steps {
		if st.State == Broken || st.State == WouldFail {
			st.writeLayers(w, predicted)
		}
	}
}

// details is what the group's steps say, each once.
func (g *group) details() string {
	var out []string
	for _, st := range g.steps {
		same := st.State == g.state || g.state == Broken && st.State == WouldFail || g.state == OK && st.State == WouldPass
		if same && !slices.Contains(out, st.Detail) {
			out = append(out, st.Detail)
		}
	}
	if len(out) > 3 {
		out = append(out[:3], fmt.Sprintf("and %d more", len(out)-3))
	}
	return strings.Join(out, "; ")
}

// layers says what the state rests on.
func (g *group) layers(predicted bool) string {
	if predicted {
		return ""
	}
	programmed, observed := true, false
	for _, st := range g.steps {
		programmed = programmed && st.Programmed != nil
		observed = observed || len(st.Observed) > 0
	}
	out := []string{"declared"}
	if programmed {
		out = append(out, "programmed")
	}
	if observed {
		out = append(out, "observed")
	}
	return "  [" + strings.Join(out, " ") + "]"
}

func (st *ReportStep) writeLayers(w io.Writer, predicted bool) {
	line := func(layer, text string) {
		if st.Node != "" {
			text = "node " + st.Node + ": " + text
		}
		fmt.Fprintf(w, "     %-10s  %s\n", layer, text)
	}
	if st.Hop != HopProcess && !predicted {
		line("declared", why(st.Declared.String(), st.Declared))
	}
	switch {
	case st.Programmed != nil && st.Programmed.Same(st.Declared):
		line("programmed", st.Programmed.String()+" (as declared)")
	case st.Programmed != nil:
		line("programmed", why(st.Programmed.String(), *st.Programmed))
	case !predicted && st.Hop != HopProcess && st.Unknown != "":
		line("programmed", "not known: "+st.Unknown)
	}
	for _, o := range st.Observed {
		line("observed", o)
	}
}

func writeFinding(w io.Writer, head string, f *flow.Finding, c Colour) {
	fmt.Fprintf(w, "%s%s%s%s %s: %s\n", head, c.Bad, f.Code, c.Off, f.Object, f.Says())
	for _, e := range f.Evidence {
		fmt.Fprintf(w, "        %s\n", e)
	}
	for i, line := range strings.Split(f.Fix, "\n") {
		head := "fix     "
		if i > 0 {
			head = "        "
		}
		fmt.Fprintf(w, "%s%s\n", head, line)
	}
}
