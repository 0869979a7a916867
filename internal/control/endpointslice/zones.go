package endpointslice

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/podway/podway/internal/model"
)

// overload is by how much more than its share an endpoint may get where hints are given by proportion (KEP-2433).
const overload float64 = 0.2

// zones is the allocatable CPU of each zone's nodes, in thousandths of a core: those that are ready and no control plane.
type zones struct {
	cpu     map[string]int64
	total   int64
	lacking string // a node without zone or CPU; then nothing can be said
}

func zonesOf(nodes Nodes) zones {
	z := zones{cpu: map[string]int64{}}
	for n := range nodes.Values() {
		switch {
		case !n.Ready || isControlPlane(n):
		case n.Zone == "" || n.CPU == 0:
			if z.lacking == "" || n.Name < z.lacking {
				z.lacking = n.Name
			}
		default:
			z.cpu[n.Zone] += n.CPU
			z.total += n.CPU
		}
	}
	return z
}

func isControlPlane(n *model.Node) bool {
	_, a := n.Labels["node-role.kubernetes.io/control-plane"]
	_, b := n.Labels["node-role.kubernetes.io/master"]
	return a || b
}

// quota is how many endpoints a zone must have and should have.
type quota struct {
	least int
	want  float64
}

// quotas splits n endpoints by CPU, or says why that cannot be.
func (z zones) quotas(n int) (map[string]quota, string) {
	switch {
	case z.lacking != "":
		return nil, "node " + z.lacking + " has no zone or no allocatable CPU"
	case len(z.cpu) < 2:
		return nil, "nodes are ready in fewer than two zones"
	case len(z.cpu) > n:
		return nil, fmt.Sprintf("%d ready endpoints are too few for %d zones", n, len(z.cpu))
	}
	out, left := make(map[string]quota, len(z.cpu)), n
	for zone, cpu := range z.cpu {
		want := float64(cpu) / float64(z.total) * float64(n)
		s := quota{least: int(math.Ceil(want * (1 / (1 + overload))))} // rounded as Kubernetes does
		s.want = max(want, float64(s.least))
		out[zone] = s
		left -= s.least
	}
	if left < 0 {
		return nil, fmt.Sprintf("%d endpoints cannot be split over %d zones without one of them getting 20%% too few", n, len(z.cpu))
	}
	return out, ""
}

// hint gives every ready endpoint of one family one zone, so that each zone has about its share. Hints that are there
// stay as long as no zone has too few; else as few as possible move, and those that were away come home first.
func (z zones) hint(groups map[string]*group, before map[string]string) (problem string) {
	ready := readyOf(groups)
	quotas, problem := z.quotas(len(ready))
	if i := slices.IndexFunc(ready, func(e *model.Endpoint) bool { return e.Zone == "" }); i >= 0 && problem == "" {
		problem = "endpoint " + ready[i].Pod.String() + " has no zone"
	}
	if problem != "" {
		return problem
	}
	s := spread{quotas: quotas, count: map[string]int{}, of: map[[2]string][]*model.Endpoint{}}
	fresh := true
	for zone := range quotas {
		s.count[zone] = 0
	}
	for _, e := range ready {
		zone := before[e.Pod.Name]
		if _, ok := quotas[zone]; ok {
			fresh = false
		} else {
			zone = e.Zone
		}
		s.count[e.Zone] += 0
		s.put(e, zone)
	}
	s.zones = slices.Sorted(maps.Keys(s.count))
	if fresh || s.needy() != "" || slices.ContainsFunc(s.zones, s.idle) {
		s.balance()
	}
	return ""
}

func readyOf(groups map[string]*group) (out []*model.Endpoint) {
	for _, g := range groups {
		for i := range g.endpoints {
			if g.endpoints[i].Ready {
				out = append(out, &g.endpoints[i])
			}
		}
	}
	slices.SortFunc(out, func(a, b *model.Endpoint) int { return a.Pod.Compare(b.Pod) })
	return out
}

// spread is ready endpoints on their way to hints: for each zone that shall use them, by the zone they stand in.
type spread struct {
	quotas map[string]quota
	zones  []string
	count  map[string]int
	of     map[[2]string][]*model.Endpoint // {used by, stands in}
}

func (s *spread) put(e *model.Endpoint, zone string) {
	e.ForZones = []string{zone}
	k := [2]string{zone, e.Zone}
	s.of[k] = append(s.of[k], e)
	s.count[zone]++
}

// needy is the zone that lacks most of what it must have, "" when none does.
func (s *spread) needy() (zone string) {
	for _, z := range s.zones {
		if lacks := s.quotas[z].least - s.count[z]; lacks > 0 && (zone == "" || lacks > s.quotas[zone].least-s.count[zone]) {
			zone = z
		}
	}
	return zone
}

// idle reports whether a zone has endpoints and no nodes to use them.
func (s *spread) idle(zone string) bool {
	_, ok := s.quotas[zone]
	return !ok && s.count[zone] > 0
}

func (s *spread) over(zone string) float64 { return float64(s.count[zone]) - s.quotas[zone].want }

// balance moves hints from zones with too many to zones with too few.
func (s *spread) balance() {
	byOver := func(a, b string) int { return cmp.Compare(s.over(a), s.over(b)) }
	for {
		rich := slices.DeleteFunc(slices.Clone(s.zones), func(z string) bool { return s.count[z] <= s.quotas[z].least })
		if len(rich) == 0 {
			return
		}
		from, to := slices.MaxFunc(rich, byOver), slices.MinFunc(s.zones, byOver)
		if z := s.needy(); z != "" {
			s.move(from, z)
			continue
		}
		if more, less := s.over(from), -s.over(to); more < 0.5 || less < 0.5 || more < 1 && less < 1 {
			return
		}
		s.move(from, to)
	}
}

// move gives one endpoint of a zone to another: one that stands there, or one that was away anyhow, or any.
func (s *spread) move(from, to string) {
	stand := slices.DeleteFunc(append([]string{to}, s.zones...), func(z string) bool { return z == from })
	for _, z := range append(stand, from) {
		k := [2]string{from, z}
		if n := len(s.of[k]); n > 0 {
			e := s.of[k][n-1]
			s.of[k] = s.of[k][:n-1]
			s.count[from]--
			s.put(e, to)
			return
		}
	}
}
