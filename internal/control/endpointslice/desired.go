package endpointslice

import (
	"slices"

	"github.com/podway/podway/internal/model"
)

// MaxEndpoints is how many endpoints a slice may hold.
const MaxEndpoints = 100

// Changes is what to write so that the slices of one Service are right. Create's slices have no name yet; Update's are
// the whole new content of existing ones, with their old resource version.
type Changes struct {
	Create, Update, Delete []*model.EndpointSlice

	// Unhinted says, for each family of a Service that asks for hints by proportion, why its endpoints have none; "" when
	// they have.
	Unhinted map[string]string

	Unmirrored Unmirrored // of Mirror
}

// Empty reports whether there is nothing to write.
func (c Changes) Empty() bool { return len(c.Create)+len(c.Update)+len(c.Delete) == 0 }

func (c *Changes) add(o Changes) {
	c.Create = append(c.Create, o.Create...)
	c.Update = append(c.Update, o.Update...)
	c.Delete = append(c.Delete, o.Delete...)
}

// Nodes are the cluster's Nodes by name.
type Nodes = model.Map[string, *model.Node]

// Desired compares the slices that are there with what the Service's Pods ask for (KEP-752). pods are those that the
// selector matches, in any order; existing are the slices to look after, each with the Service as its name. A Service
// without selector keeps its slices as they are.
func Desired(svc *model.Service, pods []*model.Pod, nodes Nodes, existing []*model.EndpointSlice) Changes {
	return podwayNames.desired(svc, pods, nodes, existing, func() zones { return zonesOf(nodes) })
}

func (by names) desired(svc *model.Service, pods []*model.Pod, nodes Nodes, existing []*model.EndpointSlice, cpu func() zones) Changes {
	if svc.Type == model.ExternalName {
		return Changes{Delete: alive(existing)}
	}
	if len(svc.Selector) == 0 {
		return Changes{Delete: slices.DeleteFunc(slices.Clone(alive(existing)), func(s *model.EndpointSlice) bool { return s.OwnerUID == svc.UID })}
	}
	own := sliceMeta{managedBy: by.slices, owner: svc.UID, labels: sliceLabels(svc.Labels, svc, by.slices), noCreate: svc.Deleting}
	g := newGrouper(svc, nodes)
	var unhinted map[string]string
	if proportional(svc) {
		unhinted = map[string]string{}
	}
	out := eachFamily(svc, existing, func(family string, there []*model.EndpointSlice) Changes {
		groups := g.groups(family, pods)
		if unhinted != nil {
			unhinted[family] = cpu().hint(groups, hintsOf(there, svc.UID))
		}
		return place(svc.Name, family, own, there, groups, nil)
	})
	out.Unhinted = unhinted
	return out
}

// hintsOf is the zone that each Pod's endpoint is hinted at now.
func hintsOf(list []*model.EndpointSlice, owner string) map[string]string {
	out := map[string]string{}
	for _, s := range list {
		for i := range s.Endpoints {
			if e := &s.Endpoints[i]; s.OwnerUID == owner && len(e.ForZones) == 1 {
				out[e.Pod.Name] = e.ForZones[0]
			}
		}
	}
	return out
}

// Touch is Desired when all that happened since the slices were right is a change to the Pods named in changed; members
// are those of them that the selector (still) matches. With shelves kept from call to call it looks at these Pods only. It
// cannot give hints by proportion, for which all endpoints count, nor find room while a Service is on its way out.
func Touch(svc *model.Service, members []*model.Pod, changed []string, nodes Nodes, existing []*model.EndpointSlice, shelves Shelves) Changes {
	return podwayNames.touch(svc, members, changed, nodes, existing, shelves)
}

func (by names) touch(svc *model.Service, members []*model.Pod, changed []string, nodes Nodes, existing []*model.EndpointSlice, shelves Shelves) Changes {
	if svc.Type == model.ExternalName || len(svc.Selector) == 0 {
		return Changes{}
	}
	own := sliceMeta{managedBy: by.slices, owner: svc.UID, labels: sliceLabels(svc.Labels, svc, by.slices), noCreate: svc.Deleting}
	g := newGrouper(svc, nodes)
	shelves.keepOnly(existing)
	return eachFamily(svc, existing, func(family string, there []*model.EndpointSlice) Changes {
		return place(svc.Name, family, own, there, g.groups(family, members), &glance{changed, shelves})
	})
}

// eachFamily runs plan for each address family of the Service and drops the slices of all others.
func eachFamily(svc *model.Service, existing []*model.EndpointSlice, plan func(string, []*model.EndpointSlice) Changes) (out Changes) {
	there := map[string][]*model.EndpointSlice{}
	for _, s := range alive(existing) {
		if slices.Contains(svc.IPFamilies, s.AddressType) {
			there[s.AddressType] = append(there[s.AddressType], s)
		} else {
			out.Delete = append(out.Delete, s)
		}
	}
	for _, f := range svc.IPFamilies {
		out.add(plan(f, there[f]))
	}
	return out
}

// alive leaves out the slices that somebody is already deleting.
func alive(in []*model.EndpointSlice) []*model.EndpointSlice {
	if !slices.ContainsFunc(in, func(s *model.EndpointSlice) bool { return s.Deleting }) {
		return in
	}
	return slices.DeleteFunc(slices.Clone(in), func(s *model.EndpointSlice) bool { return s.Deleting })
}
