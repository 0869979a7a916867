package oracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
)

// generator makes one case: structured Services that are changed step by step and written down as objects.
type generator struct {
	r        *rand.Rand
	services []*service
	made     int // Services so far, for names and addresses
	zones    map[string]string
}

// Generate makes case n of a seed. The same numbers give the same case.
func Generate(seed uint64, n int) *Case {
	g := &generator{r: rand.New(rand.NewPCG(seed, uint64(n))), zones: maps.Clone(zones)}
	c := &Case{Name: fmt.Sprintf("seed-%d-case-%d", seed, n), About: fmt.Sprintf("Case %d of seed %d.", n, seed)}
	for range 2 + g.r.IntN(3) {
		g.services = append(g.services, g.service())
	}
	c.Steps = append(c.Steps, Step{Objects: g.objects()})
	for range 2 + g.r.IntN(3) {
		s := g.happen()
		s.Objects = g.objects()
		c.Steps = append(c.Steps, s)
	}
	return c
}

// chance is true p times of a hundred.
func (g *generator) chance(p int) bool { return g.r.IntN(100) < p }

func pick[T any](g *generator, from ...T) T { return from[g.r.IntN(len(from))] }

func (g *generator) objects() map[string]Doc {
	out := topology()
	for n, z := range g.zones {
		out["Node "+n] = node(n, z)
	}
	for _, s := range g.services {
		s.put(out)
	}
	return out
}

// happen changes one to three things.
func (g *generator) happen() (s Step) {
	for range 1 + g.r.IntN(3) {
		switch p := g.r.IntN(100); {
		case p < 10 || len(g.services) == 0:
			if len(g.services) < 5 {
				g.services = append(g.services, g.service())
			}
		case p < 17:
			i := g.r.IntN(len(g.services))
			g.services = append(g.services[:i], g.services[i+1:]...)
		case p < 36:
			g.alter(pick(g, g.services...))
		case p < 38:
			g.zones[nodeA] = pick(g, "zone-1", "zone-2")
		default:
			g.endpointEvent(pick(g, g.services...))
		}
	}
	if g.chance(12) {
		s.Restart = pick(g, []string{nodeA}, []string{nodeA, nodeB})
	} else if g.chance(12) {
		s.Fail = pick(g, []string{nodeA}, []string{nodeA, nodeB})
	}
	return s
}

// alter changes the Service itself.
func (g *generator) alter(s *service) {
	switch g.r.IntN(9) {
	case 0:
		s.kind = g.kind()
	case 1:
		s.internalLocal = !s.internalLocal
	case 2:
		s.externalLocal = !s.externalLocal
	case 3:
		s.affinity = !s.affinity
	case 4:
		if len(s.ports) > 1 {
			s.ports = s.ports[:len(s.ports)-1]
		} else {
			s.ports = append(s.ports, g.port(s))
		}
	case 5:
		g.addresses(s)
	case 6:
		s.ranges = g.ranges(s)
	case 7:
		s.externalIPs = g.externalIPs(s)
	case 8:
		s.proxyName = !s.proxyName && g.chance(30)
	}
	g.complete(s)
}

// endpointEvent is what Pods and the endpoint controller do.
func (g *generator) endpointEvent(s *service) {
	switch p := g.r.IntN(10); {
	case p < 3 || len(s.endpoints) == 0:
		if len(s.endpoints) < 5 {
			s.endpoints = append(s.endpoints, g.endpoint(s))
		}
	case p < 5:
		i := g.r.IntN(len(s.endpoints))
		s.endpoints = append(s.endpoints[:i:i], s.endpoints[i+1:]...)
	case p == 5:
		s.endpoints = nil
	case p == 6:
		for i := range s.endpoints {
			s.endpoints[i].slice = g.r.IntN(2)
		}
	case p == 7:
		for i := range s.endpoints {
			s.endpoints[i].state = terminating
		}
	default:
		i := g.r.IntN(len(s.endpoints))
		s.endpoints[i].state = g.state()
	}
}
