package endpointslice

import (
	"fmt"
	"strings"

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
		n := map[string]int{}
		for _, sl := range Desired(svc, ix.members(svc.Name), s.Nodes, nil).Create {
			n[sl.AddressType]++
			sl.Name.Name = fmt.Sprintf("%s-%s-%d", svc.Name.Name, strings.ToLower(sl.AddressType), n[sl.AddressType])
			out = append(out, sl)
		}
	}
	return out
}
