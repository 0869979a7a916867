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

// place fits the groups of one family into the existing slices so that few slices change: an endpoint stays where it is;
// new ones go to slices that change anyway, else into the fullest slice that takes them all, else to new slices, for
// which slices that became empty are used up first. With changed, only the endpoints of the Pods so named are looked at
// and all others are right as they stand.
func place(svc model.Name, family string, m sliceMeta, existing []*model.EndpointSlice, groups map[string]*group, changed []string) Changes {
	var out Changes
	wants := m.wanted(groups, changed)
	kept := map[string][]*plan{}
	var spare, all []*plan
	for _, s := range existing {
		if s.OwnerUID != m.owner { // of an earlier Service of this name
			out.Delete = append(out.Delete, s)
			continue
		}
		p := &plan{old: s, key: portsKey(s.Ports), endpoints: s.Endpoints}
		p.keep(wants, &m, changed != nil)
		if len(p.endpoints) == 0 || changed == nil && groups[p.key] == nil {
			spare = append(spare, p)
			continue
		}
		kept[p.key] = append(kept[p.key], p)
		all = append(all, p)
	}
	for _, key := range sortedKeys(groups) {
		left := m.unplaced(wants, groups[key], key)
		fresh := fill(kept[key], left)
		for len(fresh) > 0 && !m.noCreate {
			var p *plan
			p, spare = takeSpare(spare)
			n := min(len(fresh), MaxEndpoints)
			p.key, p.endpoints, p.changed = key, fresh[:n:n], true
			fresh = fresh[n:]
			out.put(p, svc, family, &m, groups[key].ports)
			all = append(all, nil)
		}
	}
	if len(all) == 0 && !m.noCreate { // consumers tell "no endpoints" from "not yet known" by an empty slice
		var p *plan
		p, spare = takeSpare(spare)
		p.changed = p.old == nil || len(p.old.Endpoints)+len(p.old.Ports) > 0
		p.endpoints = nil
		out.put(p, svc, family, &m, nil)
	}
	for _, p := range all {
		if p != nil {
			out.put(p, svc, family, &m, p.old.Ports)
		}
	}
	for _, p := range spare {
		out.Delete = append(out.Delete, p.old)
	}
	return out
}

// wanted is by identity. Pods named in changed that have no endpoint any more are in it with none.
func (m *sliceMeta) wanted(groups map[string]*group, changed []string) map[string]*want {
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
	if m.managedBy == MirroredBy {
		return e.Addr.String() + "/" + e.Hostname + "/" + key
	}
	return e.Pod.Name
}

// keep goes through the slice's endpoints: the wanted ones stay at their place with their new content, others go; with
// partial, those that nobody asked about stay as they are.
func (p *plan) keep(wants map[string]*want, m *sliceMeta, partial bool) {
	for i := range p.old.Endpoints {
		e := &p.old.Endpoints[i]
		w, ok := wants[m.identity(e, p.key)]
		stay := ok && w.endpoint != nil && !w.placed && w.key == p.key || !ok && partial
		switch {
		case stay && (!ok || equal(e, w.endpoint)):
			if p.changed {
				p.endpoints = append(p.endpoints, *e)
			}
		case stay:
			p.split(i)
			p.endpoints = append(p.endpoints, *w.endpoint)
		default:
			p.split(i)
		}
		if ok && stay {
			w.placed = true
		}
	}
}

// split makes the endpoints a copy of the first n of the old ones, before the first difference is written.
func (p *plan) split(n int) {
	if !p.changed {
		p.changed = true
		p.endpoints = append(make([]model.Endpoint, 0, len(p.old.Endpoints)+1), p.old.Endpoints[:n]...)
	}
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
	best.split(len(best.endpoints))
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
