package endpointslice

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/podway/podway/internal/model"
)

// zones is the CPU of the snapshot's Nodes by zone, counted once for each list of Nodes; c.mu is held.
func (c *Controller) zones() zones {
	if c.cpu.cpu == nil || c.cpuOf != c.snap.Nodes {
		c.cpu, c.cpuOf = zonesOf(c.snap.Nodes), c.snap.Nodes
	}
	return c.cpu
}

// tellHints tells the user once when hints by proportion begin, end, or cannot be given, and why.
func (c *Controller) tellHints(n model.Name, s *state, now map[string]string) {
	for family, problem := range now {
		before, known := s.hints[family]
		switch {
		case known && before == problem:
		case problem == "":
			c.tell(n, corev1.EventTypeNormal, "TopologyAwareHintsEnabled", "the endpoints have zone hints by the CPU of the zones, "+family)
		default:
			c.tell(n, corev1.EventTypeWarning, "TopologyAwareHintsDisabled", "the endpoints have no zone hints: "+problem+", "+family)
		}
	}
	for family, before := range s.hints {
		if _, still := now[family]; !still && before == "" {
			c.tell(n, corev1.EventTypeNormal, "TopologyAwareHintsDisabled", "the Service does not ask for zone hints by CPU any more, "+family)
		}
	}
	s.hints = now
}
