package endpointslice

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podway/podway/internal/model"
)

// Derive returns the slices that a fresh cluster would have for all Services with a selector, named SERVICE-FAMILY-N. It
// looks at no slice of s.
func Derive(s *model.Snapshot) []*model.EndpointSlice {
	ix := newIndex()
	for p := range s.Pods.Values() {
		ix.setPod(nil, p)
	}
	for v := range s.Services.Values() {
		ix.setService(nil, v)
	}
	var out []*model.EndpointSlice
	for _, svc := range model.Sorted(s.Services, func(a, b *model.Service) int { return a.Name.Compare(b.Name) }) {
		out = append(out, named(svc.Name, "", Desired(svc, ix.members(svc.Name), s.Nodes, nil).Create)...)
	}
	return out
}

// DeriveMirrored returns the slices that mirror an Endpoints object, named NAME-mirrored-FAMILY-N.
func DeriveMirrored(s *model.Snapshot, e *corev1.Endpoints) []*model.EndpointSlice { //nolint:staticcheck // deprecated, and still mirrored
	n := model.N(e.Namespace, e.Name)
	return named(n, "mirrored-", Mirror(s.Services.At(n), decodeEndpoints(e), nil).Create)
}

// named gives slices the names that they have where no API server does.
func named(of model.Name, kind string, list []*model.EndpointSlice) []*model.EndpointSlice {
	n := map[string]int{}
	for _, sl := range list {
		n[sl.AddressType]++
		sl.Name.Name = fmt.Sprintf("%s-%s%s-%d", of.Name, kind, strings.ToLower(sl.AddressType), n[sl.AddressType])
	}
	return list
}
