package endpointslice

import (
	"maps"

	"github.com/podway/podway/internal/model"
)

// Labels and annotations of slices (k8s.io/api/discovery/v1, k8s.io/api/core/v1).
const (
	labelServiceName = "kubernetes.io/service-name"
	labelManagedBy   = "endpointslice.kubernetes.io/managed-by"
	labelSkipMirror  = "endpointslice.kubernetes.io/skip-mirror"
	labelHeadless    = "service.kubernetes.io/headless"

	annotationTrigger      = "endpoints.kubernetes.io/last-change-trigger-time"
	annotationOverCapacity = "endpoints.kubernetes.io/over-capacity"
	annotationLastApplied  = "kubectl.kubernetes.io/last-applied-configuration"
	annotationTopology     = "service.kubernetes.io/topology-mode"
	annotationHints        = "service.kubernetes.io/topology-aware-hints" // the older name of it
	annotationLeader       = "control-plane.alpha.kubernetes.io/leader"
)

// sliceMeta is what all slices of one Service share.
type sliceMeta struct {
	managedBy   string
	owner       string // UID
	labels      map[string]string
	annotations map[string]string // nil: those that a slice has stay
	noCreate    bool              // the owner is on its way out
}

// sliceLabels mirrors from, and adds the labels that consumers go by.
func sliceLabels(from map[string]string, svc *model.Service, managedBy string) map[string]string {
	out := make(map[string]string, len(from)+3)
	maps.Copy(out, from)
	delete(out, labelHeadless)
	if !svc.HasClusterIP() {
		out[labelHeadless] = ""
	}
	out[labelServiceName], out[labelManagedBy] = svc.Name.Name, managedBy
	return out
}

// fits reports whether a slice has the metadata it should have. The time of the last change does not count.
func (m *sliceMeta) fits(s *model.EndpointSlice) bool {
	return maps.Equal(s.Labels, m.labels) && (m.annotations == nil || sameAnnotations(s.Annotations, m.annotations))
}

func sameAnnotations(have, want map[string]string) bool {
	n := len(have)
	if _, ok := have[annotationTrigger]; ok {
		n--
	}
	if n != len(want) {
		return false
	}
	for k, v := range want {
		if h, ok := have[k]; !ok || h != v {
			return false
		}
	}
	return true
}

// stamp writes the metadata into a slice.
func (m *sliceMeta) stamp(s *model.EndpointSlice) {
	s.Labels, s.ManagedBy, s.OwnerUID = m.labels, m.managedBy, m.owner
	if m.annotations != nil {
		s.Annotations = m.annotations
	}
}
