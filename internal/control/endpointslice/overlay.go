package endpointslice

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/podway/podway/internal/model"
)

// overlay is what this process wrote and the snapshot may not show yet, by slice name, for one Service.
type overlay map[string]written

type written struct {
	slice   *model.EndpointSlice
	deleted bool
	at      time.Time
}

// slicesOf is the Service's slices as the newest of snapshot and own writes have them, ordered by name.
func (c *Controller) slicesOf(service model.Name) []*model.EndpointSlice {
	ov := c.state(service).overlay
	if len(ov) == 0 {
		return c.managed(c.snap, service)
	}
	var out []*model.EndpointSlice
	seen := map[string]bool{}
	for _, s := range c.managed(c.snap, service) {
		seen[s.Name.Name] = true
		w, ok := ov[s.Name.Name]
		switch {
		case !ok || w.slice.UID != s.UID || !w.deleted && !newer(w.slice, s):
			out = append(out, s)
		case !w.deleted:
			out = append(out, w.slice)
		}
	}
	for name, w := range ov {
		if !seen[name] && !w.deleted {
			out = append(out, w.slice)
		}
	}
	slices.SortFunc(out, func(a, b *model.EndpointSlice) int { return strings.Compare(a.Name.Name, b.Name.Name) })
	return out
}

func (c *Controller) managed(s *model.Snapshot, service model.Name) (out []*model.EndpointSlice) {
	if b := s.Backends(service); b != nil {
		for _, sl := range b.Slices {
			if c.manages(sl) {
				out = append(out, sl)
			}
		}
	}
	return out
}

// settle compares the slices of the new snapshot with those of the old one and with own writes. It forgets the writes
// that have come back, and reports whether somebody else wrote.
func (c *Controller) settle(service model.Name, old *model.Snapshot) (foreign bool) {
	ov := c.state(service).overlay
	before := map[string]*model.EndpointSlice{}
	if old != nil {
		for _, s := range c.managed(old, service) {
			before[s.Name.Name] = s
		}
	}
	for _, s := range c.managed(c.snap, service) {
		name := s.Name.Name
		prev := before[name]
		delete(before, name)
		if prev == s {
			continue
		}
		w, ok := ov[name]
		switch {
		case !ok || w.slice.UID != s.UID:
			foreign = true
		case !w.deleted && newer(w.slice, s): // from before the write
		case !w.deleted && w.slice.ResourceVersion == s.ResourceVersion:
			delete(ov, name)
		case !w.deleted:
			delete(ov, name)
			foreign = true
		}
	}
	for name := range before {
		w, ok := ov[name]
		foreign = foreign || !ok || !w.deleted
		delete(ov, name)
	}
	return foreign
}

// newer reports whether a has a later version than b.
func newer(a, b *model.EndpointSlice) bool {
	n, err := resourceversion.CompareResourceVersion(a.ResourceVersion, b.ResourceVersion)
	return err == nil && n > 0
}
