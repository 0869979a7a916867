package oracle

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/nettest"
)

// Observation is what the packets of one question saw.
type Observation struct {
	Results []string // every result that occurred, sorted: reached, refused, dropped, no route
	Pods    []string // who answered, sorted
	From    []string // whom they saw, sorted
	Strayed bool     // a client that should stay with one Pod did not
	Foreign []string // Pods that answered a client that stays though the model does not allow them
	why     string   // what the system said of one that was not reached; not compared
	count   int
}

// Tracked is a kind of UDP connection that a node may remember: who was asked, and who answered.
type Tracked struct {
	Node    string
	From    flow.Kind
	Dst     netip.AddrPort
	Answers string
}

// String is for people.
func (t Tracked) String() string {
	return fmt.Sprintf("%s: %s -> udp %s, answered by %s", t.Node, t.From, t.Dst, t.Answers)
}

// seen collects replies.
type seen struct {
	results, pods, from map[string]bool
	bySource            map[string]map[string]bool
	why                 string
	count               int
}

func newSeen() *seen {
	return &seen{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]map[string]bool{}, "", 0}
}

// add takes one reply to a client that sent from source; owner says whose the address is that the answerer saw.
func (s *seen) add(r nettest.Reply, source, owner string) {
	s.count++
	s.results[string(r.Result)] = true
	if r.Result != nettest.Reached {
		s.why = fmt.Sprint(r.Err)
		return
	}
	s.pods[r.Who], s.from[owner] = true, true
	if s.bySource[source] == nil {
		s.bySource[source] = map[string]bool{}
	}
	s.bySource[source][r.Who] = true
}

// observation is the sum. Of a client that stays with its Pod only that counts, and that it is one of those allowed: two
// proxies may well choose different ones.
func (s *seen) observation(p Probe) Observation {
	o := Observation{Results: sorted(s.results), Pods: sorted(s.pods), From: sorted(s.from), why: s.why, count: s.count}
	if !p.Sticky {
		return o
	}
	for _, pods := range s.bySource {
		o.Strayed = o.Strayed || len(pods) > 1
	}
	if p.From == flow.FromOutside { // many clients: together they see all
		return o
	}
	for _, pod := range o.Pods {
		if p.Allowed != nil && !slices.Contains(p.Allowed, pod) {
			o.Foreign = append(o.Foreign, pod)
		}
	}
	if len(o.Pods) > 0 {
		o.Pods = []string{"one of its Pods"}
		if len(p.Allowed) > 1 { // whether it is its own is chance
			o.From = nil
		}
	}
	return o
}

func sorted(m map[string]bool) []string { return slices.Sorted(maps.Keys(m)) }

// equal reports whether two observations are the same.
func (o Observation) equal(x Observation) bool {
	return slices.Equal(o.Results, x.Results) && slices.Equal(o.Pods, x.Pods) && slices.Equal(o.From, x.From) &&
		o.Strayed == x.Strayed && slices.Equal(o.Foreign, x.Foreign)
}

// with adds a later observation of the same question: its results count, its Pods and sources add to those seen before.
func (o Observation) with(later Observation) Observation {
	union := func(a, b []string) []string { return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b)))) }
	later.Pods, later.From = union(o.Pods, later.Pods), union(o.From, later.From)
	if !slices.Contains(later.Results, string(nettest.Reached)) {
		later.Pods, later.From = nil, nil
	}
	later.count += o.count
	return later
}

// only reports whether every connection had the one result.
func (o Observation) only(result string) bool { return len(o.Results) == 1 && o.Results[0] == result }

// String is for people.
func (o Observation) String() string {
	s := strings.Join(o.Results, " and ")
	if o.only("no route") {
		s += " (" + o.why + ")"
	}
	if len(o.Pods) > 0 {
		s += " " + strings.ReplaceAll(strings.Join(o.Pods, " "), "default/", "")
	}
	if len(o.From) > 0 {
		s += ", seen from " + strings.Join(o.From, " and ")
	}
	if o.Strayed {
		s += ", one client at several Pods"
	}
	if len(o.Foreign) > 0 {
		s += fmt.Sprintf(", not of the Service's: %v", o.Foreign)
	}
	return s
}

// expectation is the question and what was seen as a line of a scenario; "" when no line can say it.
func (o Observation) expectation(p Probe) string {
	if len(o.Results) != 1 {
		return ""
	}
	if !o.only("reached") {
		return fmt.Sprintf("%s => %s", p, o.Results[0])
	}
	pods := o.Pods
	if p.Sticky && len(p.Allowed) > 0 {
		pods = p.Allowed
	}
	line := fmt.Sprintf("%s => pod %s", p, strings.ReplaceAll(strings.Join(pods, " "), "default/", ""))
	if len(o.From) == 1 && o.From[0] != itself {
		line += " from " + strings.Replace(o.From[0], "default/", "", 1)
	}
	return line
}

// itself is what an answerer is said to see that sees the address the client sent from.
const itself = "the client"
