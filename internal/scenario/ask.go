package scenario

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
)

// Kind is what an expectation asks for.
type Kind string

// The kinds of questions.
const (
	Connect  Kind = "connect"  // SENDER -> PROTO TARGET
	Dig      Kind = "dig"      // dig TYPE NAME
	Get      Kind = "get"      // get URL
	Announce Kind = "announce" // announce ADDR
	Slices   Kind = "slices"   // slices SERVICE
	Trace    Kind = "trace"    // trace SENDER -> TARGET
)

// Ask is the left side of an expectation.
type Ask struct {
	Kind     Kind
	Question trace.Question // connect, dig, get, trace
	Addr     netip.Addr     // announce
	Service  model.Name     // slices
}

// parseExpectation reads one line; names in it are checked against the state.
func parseExpectation(text string, st *State) (Expectation, error) {
	text, _, _ = strings.Cut(text, " # ")
	e := Expectation{Text: strings.Join(strings.Fields(text), " ")}
	rest := e.Text
	if after, ok := strings.CutPrefix(rest, "["); ok {
		levels, after, closed := strings.Cut(after, "]")
		if !closed {
			return e, errors.New("the level mark has no closing ]")
		}
		for _, w := range strings.Fields(levels) {
			if slices.Contains(proxyModes, strings.TrimPrefix(w, "!")) {
				e.Modes = append(e.Modes, w)
				continue
			}
			l, err := ParseLevel(w)
			if err != nil {
				return e, err
			}
			e.Levels = append(e.Levels, l)
		}
		if len(e.Levels)+len(e.Modes) == 0 {
			return e, errors.New("the level mark [] names no level")
		}
		rest = strings.TrimSpace(after)
	}
	left, right, found := strings.Cut(rest, " => ")
	if !found {
		return e, fmt.Errorf("%q: want QUESTION => OUTCOME", rest)
	}
	n := names{st}
	var err error
	if e.Ask, err = n.ask(strings.Fields(left)); err != nil {
		return e, err
	}
	if e.Want, err = n.outcome(e.Ask, right); err != nil {
		return e, fmt.Errorf("outcome %q: %w", right, err)
	}
	return e, nil
}

// names finds the objects that words mean.
type names struct{ *State }

func (n names) ask(w []string) (a Ask, err error) {
	if len(w) == 0 {
		return a, errors.New("nothing before =>")
	}
	switch w[0] {
	case "announce":
		a.Kind = Announce
		if len(w) != 2 {
			return a, errors.New("want announce ADDRESS")
		}
		a.Addr, err = netip.ParseAddr(w[1])
		return a, err
	case "slices":
		a.Kind = Slices
		if len(w) != 2 {
			return a, errors.New("want slices [NAMESPACE/]SERVICE")
		}
		a.Service, err = n.service(w[1])
		return a, err
	case "dig":
		a.Kind = Dig
	case "get":
		a.Kind = Get
	case "trace":
		a.Kind = Trace
		w, err = traceWords(w[1:])
	case "pod", "node", "outside":
		a.Kind = Connect
	default:
		return a, fmt.Errorf("a question cannot begin with %q: pod, node, outside, dig, get, announce, slices or trace%s",
			w[0], didYouMean(w[0], "pod", "node", "outside", "dig", "get", "announce", "slices", "trace"))
	}
	if err == nil {
		w, err = n.qualify(w)
	}
	if err != nil {
		return a, err
	}
	a.Question, err = trace.ParseLine(strings.Join(w, " "), "")
	if err == nil {
		err = n.checkTarget(&a)
	}
	return a, err
}

// traceWords turns "SENDER -> http://x/" into the form that trace reads.
func traceWords(w []string) ([]string, error) {
	i := slices.Index(w, "->")
	switch {
	case i < 1 || len(w)-i < 2 || len(w)-i > 3:
		return nil, errors.New("want trace SENDER -> TARGET")
	case len(w)-i == 3:
		return w, nil
	case strings.HasPrefix(w[i+1], "http://"), strings.HasPrefix(w[i+1], "https://"):
		return append([]string{"get", w[i+1], "from"}, w[:i]...), nil
	}
	return append(slices.Clone(w[:i+1]), "tcp", w[i+1]), nil
}

// qualify writes the Pod's namespace before its name and checks node names.
func (n names) qualify(w []string) ([]string, error) {
	w = slices.Clone(w)
	for i := 0; i+1 < len(w); i++ {
		sender := i == 0 || w[i-1] == "from"
		switch {
		case sender && w[i] == "pod":
			p, err := n.pod(w[i+1])
			if err != nil {
				return nil, err
			}
			w[i+1] = p.String()
		case sender && w[i] == "node", w[i] == "via":
			if _, err := n.node(w[i+1]); err != nil {
				return nil, err
			}
		}
	}
	return w, nil
}

// checkTarget refuses what trace would only find out by walking.
func (n names) checkTarget(a *Ask) error {
	if a.Kind == Dig {
		return nil
	}
	t, _, err := trace.ParseTarget(a.Question.Target)
	if err != nil {
		return err
	}
	switch t.Kind {
	case "pod":
		p, err := n.pod(t.Host)
		if err == nil {
			a.Question.Target = strings.Replace(a.Question.Target, t.Host, p.String(), 1)
		}
		return err
	case "node":
		_, err = n.node(t.Host)
	case "svc":
		_, err = n.service(t.Host)
	case "":
		if a.Question.From == flow.FromOutside && a.Kind == Connect && !t.Addr.IsValid() && n.Snapshot.Nodes.At(t.Host) == nil {
			return fmt.Errorf("target %s: from outside a target is an address or a node%s", t.Host, didYouMean(t.Host, n.Nodes...))
		}
	}
	return err
}

func (n names) node(s string) (string, error) {
	if !slices.Contains(n.Nodes, s) {
		return "", fmt.Errorf("there is no node %s%s", s, didYouMean(s, n.Nodes...))
	}
	return s, nil
}

// pod finds a Pod by "namespace/name", or by a bare name that only one Pod has.
func (n names) pod(s string) (model.Name, error) {
	return find(s, "Pod", slices.Collect(maps.Keys(maps.Collect(n.Snapshot.Pods.All()))))
}

func (n names) service(s string) (model.Name, error) {
	return find(s, "Service", slices.Collect(maps.Keys(maps.Collect(n.Snapshot.Services.All()))))
}

func find(s, kind string, all []model.Name) (model.Name, error) {
	var found []string
	var known []string
	var out model.Name
	slices.SortFunc(all, model.Name.Compare)
	for _, name := range all {
		known = append(known, name.Name, name.String())
		if s == name.Name || s == name.String() {
			found, out = append(found, name.String()), name
		}
	}
	switch len(found) {
	case 0:
		return out, fmt.Errorf("there is no %s %s%s", kind, s, didYouMean(s, known...))
	case 1:
		return out, nil
	}
	return out, fmt.Errorf("%s %s is ambiguous: write %s", kind, s, strings.Join(found, " or "))
}
