package scenario

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Matches reports whether got is what the expectation says.
func (want Outcome) Matches(got Outcome) bool {
	switch {
	case want.Result != got.Result:
		return false
	case want.Result == "reached" && !slices.Equal(want.Pods, got.Pods),
		want.Result == "status" && len(want.Pods) > 0 && !slices.Equal(want.Pods, got.Pods):
		return false
	case want.From != "" && want.From != got.From, want.Sticky && !got.Sticky:
		return false
	case want.Status != got.Status, want.Cert != "" && want.Cert != got.Cert, want.Location != "" && want.Location != got.Location:
		return false
	case !slices.Equal(want.Records, got.Records), want.Node != got.Node:
		return false
	case want.Code != got.Code, want.Hop != "" && want.Hop != got.Hop:
		return false
	}
	return slices.EqualFunc(want.Slices, got.Slices, func(w, g Endpoint) bool {
		return w.Addr == g.Addr && (w.Port == 0 || w.Port == g.Port) && slices.Equal(w.States, g.States) &&
			(len(w.Hints) == 0 || slices.Equal(w.Hints, g.Hints))
	})
}

// String is the outcome in the words of the language, and Detail in brackets.
func (o Outcome) String() string {
	s := o.words()
	if o.Detail != "" {
		s += " (" + o.Detail + ")"
	}
	return s
}

func (o Outcome) words() string {
	var w []string
	switch o.Result {
	case "answer":
		return strings.Join(o.Records, ", ")
	case "node":
		return "node " + o.Node
	case "broken":
		return fmt.Sprintf("%s at %s", cmp.Or(string(o.Code), "no code"), cmp.Or(o.Hop, "no hop"))
	case "slices":
		for _, e := range o.Slices {
			w = append(w, e.String())
		}
		return cmp.Or(strings.Join(w, ", "), "none")
	case "status":
		w = append(w, fmt.Sprint(o.Status))
	case "reached":
	default:
		return o.Result
	}
	var pods, others []string
	for _, p := range o.Pods {
		if strings.Contains(p, "/") && !strings.Contains(p, " ") {
			pods = append(pods, p)
		} else {
			others = append(others, p)
		}
	}
	if len(pods) > 0 {
		w = append(append(w, "pod"), pods...)
	}
	w = append(w, others...)
	for _, x := range []struct{ word, value string }{{"from ", o.From}, {"cert ", o.Cert}, {"to ", o.Location}} {
		if x.value != "" {
			w = append(w, x.word+x.value)
		}
	}
	if o.Sticky {
		w = append(w, "sticky")
	}
	return strings.Join(w, " ")
}

// String is "ADDRESS[:PORT] STATE...".
func (e Endpoint) String() string {
	a := e.Addr.String()
	if e.Port != 0 {
		a = fmt.Sprintf("%s:%d", a, e.Port)
	}
	return strings.Join(slices.Concat([]string{a}, e.States, e.Hints), " ")
}

func (e Endpoint) compare(o Endpoint) int {
	return cmp.Or(e.Addr.Compare(o.Addr), cmp.Compare(e.Port, o.Port))
}
