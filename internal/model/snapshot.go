package model

import (
	"slices"
	"strings"
	"time"
)

// Snapshot is all that the cluster says at one moment. The zero Snapshot is an empty cluster.
type Snapshot struct {
	Rev  uint64    // counts up with every snapshot of a Source
	Time time.Time // when the newest change in it was seen

	Services  Map[Name, *Service]
	Slices    Map[Name, *EndpointSlice]
	Nodes     Map[string, *Node]
	Pods      Map[Name, *Pod]
	Ingresses Map[Name, *Ingress]
	Classes   Map[string, *IngressClass]
	Secrets   Map[Name, *Secret]
	Pools     Map[string, *Pool]
	Workloads Map[Name, *Workload] // key: namespace and "Kind/name"

	ServiceCIDRs Map[string, *ServiceCIDR]

	backends Map[Name, *Backends] // Service name -> its slices
}

// Backends returns the slices of a Service; nil when it has none.
func (s *Snapshot) Backends(service Name) *Backends { return s.backends.At(service) }

// setSlice puts the slice in, the index of Backends included.
func (s *Snapshot) setSlice(sl *EndpointSlice) {
	s.removeSlice(sl.Name)
	s.Slices = s.Slices.Set(sl.Name, sl)
	if sl.Service.Name == "" {
		return
	}
	b := &Backends{Slices: []*EndpointSlice{sl}}
	if old := s.backends.At(sl.Service); old != nil {
		b.Slices = append(b.Slices, old.Slices...)
	}
	slices.SortFunc(b.Slices, func(x, y *EndpointSlice) int { return strings.Compare(x.Name.Name, y.Name.Name) })
	s.backends = s.backends.Set(sl.Service, b)
}

func (s *Snapshot) removeSlice(n Name) {
	old, ok := s.Slices.Get(n)
	if !ok {
		return
	}
	s.Slices = s.Slices.Delete(n)
	b := s.backends.At(old.Service)
	if b == nil {
		return
	}
	left := &Backends{}
	for _, sl := range b.Slices {
		if sl.Name != n {
			left.Slices = append(left.Slices, sl)
		}
	}
	if len(left.Slices) == 0 {
		s.backends = s.backends.Delete(old.Service)
		return
	}
	s.backends = s.backends.Set(old.Service, left)
}

// Sorted returns the values of a map ordered by less, for output that must not vary.
func Sorted[K comparable, V any](m Map[K, V], compare func(a, b V) int) []V {
	out := make([]V, 0, m.Len())
	for v := range m.Values() {
		out = append(out, v)
	}
	slices.SortFunc(out, compare)
	return out
}
