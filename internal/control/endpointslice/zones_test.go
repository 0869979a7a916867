package endpointslice

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/podway/podway/internal/model"
)

func auto(s *model.Service) { s.Annotations = map[string]string{annotationTopology: "Auto"} }

// zoned is Nodes with so much CPU, one in each zone: zone-0, zone-1, ...
func zoned(cpu ...int64) (m Nodes) {
	for i, c := range cpu {
		name := fmt.Sprintf("node-%d", i)
		m = m.Set(name, &model.Node{Name: name, Ready: true, Zone: fmt.Sprintf("zone-%d", i), CPU: c})
	}
	return m
}

// in is so many Pods on each of node-0, node-1, ...
func in(counts ...int) (out []*model.Pod) {
	for node, n := range counts {
		for range n {
			out = append(out, pod(len(out), func(p *model.Pod) { p.Node = fmt.Sprintf("node-%d", node) }))
		}
	}
	return out
}

// hinted counts the endpoints by hint, "zone-0=2 zone-1=4", and those hinted away from where they stand.
func hinted(list []*model.EndpointSlice) string {
	count, away := map[string]int{}, 0
	for _, s := range list {
		for _, e := range s.Endpoints {
			for _, z := range e.ForZones {
				count[z]++
				if z != e.Zone {
					away++
				}
			}
		}
	}
	var out []string
	for _, z := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s=%d", z, count[z]))
	}
	return strings.Join(append(out, fmt.Sprintf("away=%d", away)), " ")
}

func TestHintsGoByTheCPUOfTheZones(t *testing.T) {
	for _, c := range []struct {
		name  string
		nodes Nodes
		pods  []*model.Pod
		want  string
		why   string // of no hints
	}{
		{"equal zones, equal endpoints: all at home", zoned(4000, 4000), in(3, 3), "zone-0=3 zone-1=3 away=0", ""},
		{"equal zones, endpoints in one only: half of them go", zoned(4000, 4000), in(6, 0), "zone-0=3 zone-1=3 away=3", ""},
		{"a zone of thrice the CPU gets thrice the endpoints", zoned(4000, 12000), in(4, 4), "zone-0=2 zone-1=6 away=2", ""},
		{"within the tolerance nothing moves needlessly", zoned(4000, 4200), in(5, 5), "zone-0=5 zone-1=5 away=0", ""},
		{"three zones", zoned(4000, 4000, 4000), in(9, 0, 0), "zone-0=3 zone-1=3 zone-2=3 away=6", ""},
		{"an endpoint in a zone without CPU for work serves another", zoned(4000, 4000).Set("cp", &model.Node{Name: "cp", Zone: "zone-9", Ready: true, CPU: 4000,
			Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}), append(in(2, 1), pod(9, func(p *model.Pod) { p.Node = "cp" })), "zone-0=2 zone-1=2 away=1", ""},
		{"a Node that is not ready does not count", zoned(4000, 4000).Set("node-1", &model.Node{Name: "node-1", Zone: "zone-1", CPU: 4000}), in(3, 3), "away=0", "fewer than two zones"},
		{"fewer endpoints than zones", zoned(4000, 4000, 4000), in(1, 1, 0), "away=0", "2 ready endpoints are too few for 3 zones"},
		{"no split comes near the shares", zoned(4000, 4000), in(3, 0), "away=0", "cannot be split"},
		{"a Node without zone", zoned(4000, 4000).Set("x", &model.Node{Name: "x", Ready: true, CPU: 1}), in(3, 3), "away=0", "node x has no zone"},
		{"a Node without CPU", zoned(4000, 0), in(3, 3), "away=0", "node node-1 has no zone or no allocatable CPU"},
		{"an endpoint whose zone is not known", zoned(4000, 4000).Set("x", &model.Node{Name: "x"}), append(in(3, 3), pod(8, func(p *model.Pod) { p.Node = "x" })), "away=0", "endpoint shop/cart-0008 has no zone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ch := Desired(cart(auto), c.pods, c.nodes, nil)
			if got := hinted(ch.Create); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if why := ch.Unhinted[ipv4]; (why == "") != (c.why == "") || !strings.Contains(why, c.why) {
				t.Errorf("reason %q, want %q", why, c.why)
			}
			var c2 cluster
			c2.apply(ch)
			if again := Desired(cart(auto), c.pods, c.nodes, c2.list()); !again.Empty() {
				t.Errorf("a second look wants changes: %s", hinted(again.Update))
			}
		})
	}
}

func TestHintsByProportionMoveOnlyWhenAZoneHasTooFew(t *testing.T) {
	ns, all := zoned(4000, 4000), in(150, 150)
	var c cluster
	c.apply(Desired(cart(auto), all, ns, nil))
	for i := range 20 { // up to a sixth may be missing
		all[i] = pod(i, func(p *model.Pod) { p.Node, p.Ready = "node-0", false })
		ch := Desired(cart(auto), all, ns, c.list())
		if len(ch.Update) != 1 {
			t.Fatalf("Pod %d flips and %d slices are written", i, len(ch.Update))
		}
		c.apply(ch)
	}
	if got := hinted(c.list()); got != "zone-0=130 zone-1=150 away=0" {
		t.Errorf("with twenty Pods less: %s", got)
	}
	for i := range 60 {
		all[i] = pod(i, func(p *model.Pod) { p.Node, p.Ready = "node-0", false })
	}
	c.apply(Desired(cart(auto), all, ns, c.list()))
	if got := hinted(c.list()); got != "zone-0=120 zone-1=120 away=30" {
		t.Errorf("with sixty Pods less: %s", got)
	}
	for i := range 60 {
		all[i] = pod(i, func(p *model.Pod) { p.Node = "node-0" })
	}
	c.apply(Desired(cart(auto), all, ns, c.list()))
	if got := hinted(c.list()); got != "zone-0=150 zone-1=150 away=0" {
		t.Errorf("and when they are back: %s", got)
	}
	c.apply(Desired(cart(), all, ns, c.list()))
	if got := hinted(c.list()); got != "away=0" {
		t.Errorf("without the annotation: %s", got)
	}
}

func TestTheUserIsToldWhenHintsBeginAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, newServer(), nil)
		defer l.close()
		event := func(want ...string) {
			t.Helper()
			settle(time.Second)
			for _, w := range want {
				select {
				case e := <-l.events.Events:
					if !strings.Contains(e, w) {
						t.Errorf("event %q, want %q", e, w)
					}
				default:
					t.Errorf("no event, want %q", w)
				}
			}
			if len(l.events.Events) > 0 {
				t.Errorf("event %q too many", <-l.events.Events)
			}
		}
		for n := range zoned(4000, 4000).Values() {
			l.put(n)
		}
		for _, p := range in(2, 2) {
			l.put(p)
		}
		l.put(cart(auto))
		event("Normal TopologyAwareHintsEnabled")
		l.put(pod(0, func(p *model.Pod) { p.Ready = false }))
		event("Warning TopologyAwareHintsDisabled the endpoints have no zone hints: 3 endpoints cannot be split over 2 zones")
		l.put(pod(0, func(p *model.Pod) { p.Ready = false; p.Labels["x"] = "y" }))
		event()
		l.put(&model.Node{Name: "node-1", Ready: true, Zone: "zone-1", CPU: 8000})
		event("Normal TopologyAwareHintsEnabled")
		if got := hinted(l.server.slices(t)); got != "zone-0=1 zone-1=2 away=0" {
			t.Errorf("after the Node has grown: %s", got)
		}
		l.put(cart())
		event("Normal TopologyAwareHintsDisabled the Service does not ask")
		if got := hinted(l.server.slices(t)); got != "away=0" {
			t.Errorf("without the annotation: %s", got)
		}
	})
}
