package endpointslice

import (
	"cmp"
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

// plan is one existing slice on its way to what it shall hold.
type plan struct {
	old       *model.EndpointSlice
	key       string // of its ports
	endpoints []model.Endpoint
	changed   bool // endpoints differ from old's
}

// want is one endpoint that must stand in exactly one slice.
type want struct {
	endpoint *model.Endpoint
	key      string
	placed   bool
}

// glance is what a plan for some Pods only goes by: all other endpoints are right as they stand.
type glance struct {
	changed []string // Pods
	shelves Shelves
}

// place fits the groups of one family into the existing slices so that few slices change: an endpoint stays where it is;
// new ones go to slices that change anyway, else into the fullest slice that takes them all, else to new slices, for
// which slices that became empty are used up first. With only, nothing but the Pods it names is looked at.
func place(svc model.Name, family string, m sliceMeta, existing []*model.EndpointSlice, groups map[string]*group, only *glance) Changes {
	var out Changes
	wants := m.wanted(groups, only)
	kept := map[string][]*plan{}
	var spare, all []*plan
	for _, s := range existing {
		if s.OwnerUID != m.owner { // of an earlier Service of this name
			out.Delete = append(out.Delete, s)
			continue
		}
		p := newPlan(s, &m, wants, only)
		if len(p.endpoints) == 0 {
			spare = append(spare, p)
			continue
		}
		kept[p.key] = append(kept[p.key], p)
		all = append(all, p)
	}
	for _, key := range sortedKeys(groups) {
		left := m.unplaced(wants, groups[key], key)
		fresh := fill(kept[key], left)
		for len(fresh) > 0 && (!m.noCreate || len(spare) > 0) {
			var p *plan
			p, spare = takeSpare(spare)
			n := min(len(fresh), MaxEndpoints)
			p.key, p.endpoints, p.changed = key, fresh[:n:n], true
			fresh = fresh[n:]
			out.put(p, svc, family, &m, groups[key].ports)
			all = append(all, nil)
		}
	}
	if len(all) == 0 && (!m.noCreate || len(spare) > 0) { // consumers tell "no endpoints" from "not yet known" by an empty slice
		var p *plan
		p, spare = takeSpare(spare)
		p.changed = p.old == nil || len(p.old.Endpoints)+len(p.old.Ports) > 0
		p.endpoints = nil
		out.put(p, svc, family, &m, nil)
	}
	for _, p := range all {
		if p != nil && (p.changed || only == nil) {
			out.put(p, svc, family, &m, p.old.Ports)
		}
	}
	for _, p := range spare {
		out.Delete = append(out.Delete, p.old)
	}
	return out
}

// newPlan is an existing slice with what is wanted of its endpoints.
func newPlan(s *model.EndpointSlice, m *sliceMeta, wants map[string]*want, only *glance) *plan {
	p := &plan{old: s, endpoints: s.Endpoints}
	if only != nil {
		sh := only.shelves.of(s)
		p.key = sh.key
		p.keep(wants, m, sh.find(only.changed))
		return p
	}
	p.key = portsKey(s.Ports)
	all := make([]int32, len(s.Endpoints))
	for i := range all {
		all[i] = int32(i)
	}
	p.keep(wants, m, all)
	return p
}

// wanted is by identity. Pods that a glance names and that have no endpoint any more are in it with none.
func (m *sliceMeta) wanted(groups map[string]*group, only *glance) map[string]*want {
	var changed []string
	if only != nil {
		changed = only.changed
	}
	n := len(changed)
	for _, g := range groups {
		n += len(g.endpoints)
	}
	out := make(map[string]*want, n)
	for _, name := range changed {
		out[name] = &want{}
	}
	backing := make([]want, 0, n)
	for key, g := range groups {
		for i := range g.endpoints {
			e := &g.endpoints[i]
			backing = append(backing, want{endpoint: e, key: key})
			out[m.identity(e, key)] = &backing[len(backing)-1]
		}
	}
	return out
}

// identity says which endpoints of an old and a new view are the same one: those of a Pod, which has one set of ports; or
// in mirrored slices, where an address may have several, those of an address with these ports.
func (m *sliceMeta) identity(e *model.Endpoint, key string) string {
	if mirrors(m.managedBy) {
		return e.Addr.String() + "/" + e.Hostname + "/" + e.Pod.String() + "/" + key
	}
	return e.Pod.Name
}

// keep goes through the endpoints at some places of the slice: the wanted ones stay there with their new content, others
// go. Endpoints at other places stay as they are.
func (p *plan) keep(wants map[string]*want, m *sliceMeta, places []int32) {
	done := 0 // endpoints carried over, once there is a change
	for _, at := range places {
		i, e := int(at), &p.old.Endpoints[at]
		w := wants[m.identity(e, p.key)]
		stay := w != nil && w.endpoint != nil && !w.placed && w.key == p.key
		if stay {
			w.placed = true
			if equal(e, w.endpoint) {
				continue
			}
		}
		p.carry(done, i)
		if stay {
			p.endpoints = append(p.endpoints, *w.endpoint)
		}
		done = i + 1
	}
	if p.changed {
		p.carry(done, len(p.old.Endpoints))
	}
}

// carry copies the old endpoints from one place up to another; the first time, when a difference was found, it begins a
// new list.
func (p *plan) carry(from, to int) {
	if !p.changed {
		p.changed = true
		p.endpoints = make([]model.Endpoint, 0, len(p.old.Endpoints)+1)
	}
	p.endpoints = append(p.endpoints, p.old.Endpoints[from:to]...)
}

func (m *sliceMeta) unplaced(wants map[string]*want, g *group, key string) []model.Endpoint {
	var out []model.Endpoint
	for i := range g.endpoints {
		e := &g.endpoints[i]
		if w := wants[m.identity(e, key)]; w.endpoint == e && !w.placed && w.key == key {
			out = append(out, *e)
		}
	}
	slices.SortFunc(out, func(a, b model.Endpoint) int {
		return cmp.Or(a.Pod.Compare(b.Pod), a.Addr.Compare(b.Addr), strings.Compare(a.Hostname, b.Hostname))
	})
	return out
}

// fill adds endpoints to slices of the same ports and returns those that need new slices.
func fill(plans []*plan, add []model.Endpoint) []model.Endpoint {
	if len(add) == 0 {
		return nil
	}
	var open []*plan
	for _, p := range plans {
		if p.changed && len(p.endpoints) < MaxEndpoints {
			open = append(open, p)
		}
	}
	slices.SortStableFunc(open, func(a, b *plan) int { return len(b.endpoints) - len(a.endpoints) })
	for _, p := range open {
		n := min(len(add), MaxEndpoints-len(p.endpoints))
		p.endpoints = append(p.endpoints, add[:n]...)
		add = add[n:]
	}
	var best *plan
	for _, p := range plans {
		if !p.changed && len(p.endpoints)+len(add) <= MaxEndpoints && (best == nil || len(p.endpoints) > len(best.endpoints)) {
			best = p
		}
	}
	if best == nil || len(add) == 0 {
		return add
	}
	best.carry(0, len(best.old.Endpoints))
	best.endpoints = append(best.endpoints, add...)
	return nil
}

func takeSpare(spare []*plan) (*plan, []*plan) {
	if len(spare) == 0 {
		return &plan{}, nil
	}
	return spare[0], spare[1:]
}

// put adds the plan's slice to the changes, unless it is there as it should be.
func (c *Changes) put(p *plan, svc model.Name, family string, m *sliceMeta, ports []model.EndpointPort) {
	if p.old != nil && !p.changed && m.fits(p.old) {
		return
	}
	s := &model.EndpointSlice{Name: model.N(svc.Namespace, "")}
	if p.old != nil {
		*s = *p.old
	}
	s.Service, s.AddressType, s.Ports, s.Endpoints = svc, family, ports, p.endpoints
	m.stamp(s)
	if p.old == nil {
		c.Create = append(c.Create, s)
	} else {
		c.Update = append(c.Update, s)
	}
}

func sortedKeys(groups map[string]*group) []string {
	out := make([]string, 0, len(groups))
	for k := range groups {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func equal(a, b *model.Endpoint) bool {
	return a.Addr == b.Addr && a.Ready == b.Ready && a.Serving == b.Serving && a.Terminating == b.Terminating &&
		a.Node == b.Node && a.Zone == b.Zone && a.PodUID == b.PodUID && a.Hostname == b.Hostname && a.Pod == b.Pod &&
		slices.Equal(a.ForZones, b.ForZones) && slices.Equal(a.ForNodes, b.ForNodes)
}
