package endpointslice

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/model"
)

// A random life of a Service: Pods come, go, flip and change their port. After each step every Pod stands in exactly one
// slice with the right ports, no slice is too large, and Touch gave the same as Desired.
func TestEveryPodStandsInOneSliceWhateverHappens(t *testing.T) {
	for seed := range uint64(6) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		svc := cart(func(s *model.Service) {
			s.Ports[0].TargetPort = model.PortRef{Name: "web"}
			s.TrafficDistribution = []string{"", "PreferSameNode"}[seed%2]
		})
		here, ns := map[string]*model.Pod{}, nodes()
		var c cluster
		shelves := Shelves{}
		c.apply(Desired(svc, nil, ns, nil))
		for step := range 100 {
			var changed []string
			var members []*model.Pod
			for range rnd.IntN(40) {
				p := pod(rnd.IntN(600), func(p *model.Pod) {
					p.Ready, p.Deleting = rnd.IntN(3) > 0, rnd.IntN(6) == 0
					p.Ports = []model.ContainerPort{{Name: "web", Protocol: model.TCP, Port: uint16(8080 + rnd.IntN(2))}}
				})
				if slices.Contains(changed, p.Name.Name) {
					continue
				}
				changed = append(changed, p.Name.Name)
				if rnd.IntN(3) == 0 {
					delete(here, p.Name.Name)
				} else {
					here[p.Name.Name] = p
					members = append(members, p)
				}
			}
			all := make([]*model.Pod, 0, len(here))
			for _, p := range here {
				all = append(all, p)
			}
			full, quick := Desired(svc, all, ns, c.list()), Touch(svc, members, changed, ns, c.list(), shelves)
			if d := cmp.Diff(changesText(full), changesText(quick)); d != "" {
				t.Fatalf("seed %d step %d: Touch differs from Desired: %s", seed, step, d)
			}
			c.apply(quick)
			check(t, svc, here, c.list())
		}
	}
}

func changesText(c Changes) string {
	out := "create\n" + text(c.Create) + "update\n" + text(c.Update) + "delete\n" + text(c.Delete)
	for _, s := range append(slices.Clone(c.Update), c.Delete...) {
		out += s.Name.Name + " "
	}
	return out
}

func check(t *testing.T, svc *model.Service, here map[string]*model.Pod, list []*model.EndpointSlice) {
	t.Helper()
	seen := map[string]bool{}
	for _, s := range list {
		if len(s.Endpoints) > MaxEndpoints || len(s.Endpoints) == 0 && len(list) > 1 {
			t.Fatalf("a slice of %d endpoints among %d", len(s.Endpoints), len(list))
		}
		for _, e := range s.Endpoints {
			p := here[e.Pod.Name]
			if p == nil || seen[e.Pod.Name] || e.Ready != (p.Ready && !p.Deleting) || portsKey(s.Ports) != portsKey(portsOf(svc, p)) {
				t.Fatalf("endpoint %+v of %+v, seen %v", e, p, seen[e.Pod.Name])
			}
			seen[e.Pod.Name] = true
		}
	}
	if len(seen) != len(here) {
		t.Fatalf("%d endpoints for %d Pods", len(seen), len(here))
	}
}

func TestTheIndexKnowsTheMembersUnderRandomChange(t *testing.T) {
	rnd := rand.New(rand.NewPCG(7, 7))
	ix := newIndex()
	podsNow, svcs := map[model.Name]*model.Pod{}, map[model.Name]*model.Service{}
	some := func(n int) map[string]string {
		out := map[string]string{}
		for range rnd.IntN(n) {
			out[string(rune('a'+rnd.IntN(3)))] = string(rune('x' + rnd.IntN(2)))
		}
		return out
	}
	for step := range 2000 {
		if rnd.IntN(4) == 0 {
			n := cart(func(s *model.Service) {
				s.Name.Name, s.Selector = string(rune('A'+rnd.IntN(8))), some(3)
			})
			if rnd.IntN(4) == 0 {
				ix.setService(svcs[n.Name], nil)
				delete(svcs, n.Name)
			} else {
				ix.setService(svcs[n.Name], n)
				svcs[n.Name] = n
			}
		} else {
			n := pod(rnd.IntN(30), func(p *model.Pod) { p.Labels = some(5) })
			if rnd.IntN(4) == 0 {
				ix.setPod(podsNow[n.Name], nil)
				delete(podsNow, n.Name)
			} else {
				ix.setPod(podsNow[n.Name], n)
				podsNow[n.Name] = n
			}
		}
		for name, s := range svcs {
			want := 0
			for _, p := range podsNow {
				if len(s.Selector) > 0 && selects(s, p) {
					want++
				}
			}
			got := ix.members(name)
			for _, p := range got {
				if podsNow[p.Name] != p {
					t.Fatalf("step %d: stale Pod %s", step, p.Name)
				}
			}
			if len(got) != want {
				t.Fatalf("step %d: Service %s has %d members, want %d", step, name, len(got), want)
			}
		}
	}
}
