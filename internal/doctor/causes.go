package doctor

import (
	"slices"

	"github.com/podway/podway/internal/flow"
)

// hit notes a finding, once for each cause. Two Services over the same Pods that are not ready have one cause.
func (e *examiner) hit(f flow.Finding, what string) {
	for i := range e.r.Causes {
		if c := &e.r.Causes[i]; same(c.Finding, f) {
			if what != "" && !slices.Contains(c.Hits, what) {
				c.Hits = append(c.Hits, what)
			}
			return
		}
	}
	c := Cause{Finding: f}
	if what != "" {
		c.Hits = []string{what}
	}
	e.r.Causes = append(e.r.Causes, c)
}

// same reports whether two findings are one cause.
func same(a, b flow.Finding) bool {
	switch {
	case a.Code != b.Code:
		return false
	case a.Code == flow.PodsNotReady:
		return slices.Equal(a.Evidence, b.Evidence) // the Pods
	case a.Code == flow.IngressConflict, a.Code == flow.IngressUnsupported, a.Code == flow.IngressBadSecret, a.Code == flow.PodGone:
		return a.Object == b.Object && a.Cause == b.Cause // an object has several of these
	}
	return a.Object == b.Object
}

// known reports whether the object has a cause of this code already.
func (e *examiner) known(code flow.Code, object string) bool {
	return slices.ContainsFunc(e.r.Causes, func(c Cause) bool { return c.Code == code && c.Object == object })
}
