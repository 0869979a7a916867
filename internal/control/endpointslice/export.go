package endpointslice

import (
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/model"
)

// Encode is the API object of a slice, as the controller writes it.
func Encode(s *model.EndpointSlice) *discoveryv1.EndpointSlice { return encodeSlice(s) }
