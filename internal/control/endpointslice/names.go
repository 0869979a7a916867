package endpointslice

import "github.com/podway/podway/internal/model"

// Values of the managed-by labels.
const (
	// ManagedBy marks the slices made from Pods, in the label endpointslice.kubernetes.io/managed-by.
	ManagedBy = "endpointslice-controller.podway.io"
	// MirroredBy marks the slices made from Endpoints that somebody else writes.
	MirroredBy = "endpointslicemirroring-controller.podway.io"
	// EndpointsManagedBy marks the v1 Endpoints that this package writes, in the label endpoints.kubernetes.io/managed-by.
	EndpointsManagedBy = "endpoint-controller.podway.io"

	kubeManagedBy          = "endpointslice-controller.k8s.io"
	kubeMirroredBy         = "endpointslicemirroring-controller.k8s.io"
	kubeEndpointsManagedBy = "endpoint-controller"
)

// names are the values that a controller writes.
type names struct{ slices, mirrored, endpoints string }

var (
	podwayNames     = names{ManagedBy, MirroredBy, EndpointsManagedBy}
	kubernetesNames = names{kubeManagedBy, kubeMirroredBy, kubeEndpointsManagedBy}
)

func (c *Controller) names() names {
	if c.KubernetesNames {
		return kubernetesNames
	}
	return podwayNames
}

// takes reports whether what kube-controller-manager's controllers manage is to be looked after.
func (c *Controller) takes() bool { return c.Adopt || c.KubernetesNames }

// manages reports whether a slice is one to look after.
func (c *Controller) manages(s *model.EndpointSlice) bool {
	switch s.ManagedBy {
	case ManagedBy, MirroredBy:
		return true
	case kubeManagedBy, kubeMirroredBy:
		return c.takes()
	}
	return false
}

func isMirrored(s *model.EndpointSlice) bool { return mirrors(s.ManagedBy) }

func mirrors(managedBy string) bool { return managedBy == MirroredBy || managedBy == kubeMirroredBy }
