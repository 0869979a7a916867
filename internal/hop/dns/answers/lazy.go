package answers

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/model"
)

// Of returns a View of a snapshot that compiles only what it is asked for: cheap to make, dear to ask. It answers as
// the View that Apply makes of the same snapshot.
func Of(o Options, s *model.Snapshot) (*View, error) {
	v, err := New(o)
	if err != nil {
		return nil, err
	}
	v.stamp(s)
	v.from = s
	return v, nil
}

// compiled makes the Service of a key.
func (v *View) compiled(key string) *service {
	n := nameOfKey(key)
	return v.compile(v.from.Services.At(n), v.from.Backends(n))
}

func (v *View) compiledSpace(label string) int {
	count := 0
	for n, s := range v.from.Services.All() {
		if n.Namespace == label[1:] && v.compile(s, v.from.Backends(n)) != nil {
			count++
		}
	}
	return count
}

func (v *View) compiledBack(addr netip.Addr) *backNames {
	var by []owned
	for n, s := range v.from.Services.All() {
		if !mayHave(s, v.from.Backends(n), addr) {
			continue
		}
		c := v.compile(s, v.from.Backends(n))
		if c == nil {
			continue
		}
		for _, p := range c.ptrs {
			if p.addr == addr {
				by = append(by, owned{serviceKey(n), p.target})
			}
		}
	}
	if len(by) == 0 {
		return nil
	}
	return v.backOf(by)
}

// mayHave is a cheap test before a Service is compiled for an address.
func mayHave(s *model.Service, b *model.Backends, addr netip.Addr) bool {
	if !s.Headless {
		return slices.Contains(s.ClusterIPs, addr)
	}
	found := false
	b.Each(func(_ *model.EndpointSlice, e *model.Endpoint) { found = found || e.Addr.Unmap() == addr })
	return found
}
