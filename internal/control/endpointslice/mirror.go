package endpointslice

import (
	"maps"

	"github.com/podway/podway/internal/model"
)

// Mirror compares the slices that are there with an Endpoints object that somebody else writes for a Service without
// selector. ep is nil when there is none. Objects of leader elections and those that ask not to be mirrored are not.
func Mirror(svc *model.Service, ep *Endpoints, existing []*model.EndpointSlice) (out Changes) {
	existing = alive(existing)
	if ep == nil || svc == nil || len(svc.Selector) > 0 || svc.Type == model.ExternalName || !mirrored(ep) {
		return Changes{Delete: existing}
	}
	own := sliceMeta{managedBy: MirroredBy, owner: ep.UID, labels: sliceLabels(ep.Labels, svc, MirroredBy),
		annotations: map[string]string{}}
	delete(own.labels, labelEndpointsBy)
	maps.Copy(own.annotations, ep.Annotations)
	delete(own.annotations, annotationTrigger)
	delete(own.annotations, annotationLastApplied)
	for _, family := range []string{ipv4, ipv6} {
		var there []*model.EndpointSlice
		for _, s := range existing {
			if s.AddressType == family {
				there = append(there, s)
			}
		}
		groups := mirrorGroups(ep, family)
		if len(groups) == 0 {
			out.Delete = append(out.Delete, there...)
			continue
		}
		out.add(place(svc.Name, family, own, there, groups, nil))
	}
	return out
}

func mirrored(ep *Endpoints) bool {
	_, election := ep.Annotations[annotationLeader]
	return !election && ep.Labels[labelSkipMirror] != "true"
}

func mirrorGroups(ep *Endpoints, family string) map[string]*group {
	out := map[string]*group{}
	for _, s := range ep.Subsets {
		key := portsKey(s.Ports)
		g := out[key]
		if g == nil {
			g = &group{ports: s.Ports}
		}
		g.add(s.Ready, family, true)
		g.add(s.NotReady, family, false)
		if len(g.endpoints) > 0 {
			out[key] = g
		}
	}
	return out
}

func (g *group) add(list []Address, family string, ready bool) {
	for _, a := range list {
		if a.Addr.Is4() == (family == ipv4) {
			g.endpoints = append(g.endpoints, model.Endpoint{Addr: a.Addr, Ready: ready, Serving: ready,
				Hostname: a.Hostname, Node: a.Node, Pod: a.Pod, PodUID: a.PodUID})
		}
	}
}
