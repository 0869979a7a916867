package endpointslice

import (
	"fmt"
	"maps"

	"github.com/podway/podway/internal/model"
)

// MaxMirrored is how many addresses of one subset are mirrored; ready ones are first.
const MaxMirrored = 1000

// Mirror compares the slices that are there with an Endpoints object that somebody else writes for a Service without
// selector. ep is nil when there is none. Objects of leader elections and those that ask not to be mirrored are not.
func Mirror(svc *model.Service, ep *Endpoints, existing []*model.EndpointSlice) Changes {
	return podwayNames.mirror(svc, ep, existing)
}

func (by names) mirror(svc *model.Service, ep *Endpoints, existing []*model.EndpointSlice) (out Changes) {
	existing = alive(existing)
	if ep == nil || svc == nil || len(svc.Selector) > 0 || svc.Type == model.ExternalName || !mirrored(ep) {
		return Changes{Delete: existing}
	}
	own := by.mirrorMeta(svc, ep)
	groups, left := mirrorGroups(ep)
	for _, family := range []string{ipv4, ipv6} {
		var there []*model.EndpointSlice
		for _, s := range existing {
			if s.AddressType == family {
				there = append(there, s)
			}
		}
		if len(groups[family]) == 0 {
			out.Delete = append(out.Delete, there...)
			continue
		}
		out.add(place(svc.Name, family, own, there, groups[family], nil))
	}
	out.Unmirrored = left
	return out
}

// Unmirrored is what of an Endpoints object is in no slice.
type Unmirrored struct{ Invalid, TooMany int }

// mirrorMeta copies labels and annotations, but for those that speak of the Endpoints object itself.
func (by names) mirrorMeta(svc *model.Service, ep *Endpoints) sliceMeta {
	own := sliceMeta{managedBy: by.mirrored, owner: ep.UID, labels: map[string]string{}, annotations: map[string]string{}, noCreate: ep.Deleting}
	maps.Copy(own.labels, ep.Labels)
	own.labels[labelServiceName], own.labels[labelManagedBy] = svc.Name.Name, by.mirrored
	maps.Copy(own.annotations, ep.Annotations)
	delete(own.annotations, annotationTrigger)
	delete(own.annotations, annotationLastApplied)
	return own
}

func mirrored(ep *Endpoints) bool {
	_, election := ep.Annotations[annotationLeader]
	return !election && ep.Labels[labelSkipMirror] != "true"
}

// mirrorGroups is the endpoints by family and ports, and what did not fit.
func mirrorGroups(ep *Endpoints) (map[string]map[string]*group, Unmirrored) {
	out := map[string]map[string]*group{ipv4: {}, ipv6: {}}
	left := Unmirrored{Invalid: ep.Invalid}
	for _, s := range repack(ep.Subsets) {
		key, room := portsKey(s.Ports), MaxMirrored
		for i, list := range [][]Address{s.Ready, s.NotReady} {
			n := min(len(list), room)
			left.TooMany += len(list) - n
			room -= n
			for _, a := range list[:n] {
				family := ipv4
				if !a.Addr.Is4() {
					family = ipv6
				}
				g := out[family][key]
				if g == nil {
					g = &group{ports: s.Ports}
					out[family][key] = g
				}
				g.endpoints = append(g.endpoints, model.Endpoint{Addr: a.Addr, Ready: i == 0, Serving: i == 0,
					Hostname: a.Hostname, Node: a.Node, Pod: a.Pod, PodUID: a.PodUID})
			}
		}
	}
	return out, left
}

// tellUnmirrored tells the user once that some addresses of an Endpoints object are in no slice.
func (c *Controller) tellUnmirrored(n model.Name, s *state, ep *Endpoints, left Unmirrored) {
	before := s.unmirrored
	s.unmirrored = left
	if left.Invalid > 0 && left.Invalid != before.Invalid {
		c.tellOf(endpointsRef(ep, n), "InvalidIPAddress", fmt.Sprintf("%d addresses are no IP addresses and stand in no EndpointSlice", left.Invalid))
	}
	if left.TooMany > 0 && left.TooMany != before.TooMany {
		c.tellOf(endpointsRef(ep, n), "TooManyAddressesToMirror",
			fmt.Sprintf("at most %d addresses of a subset are mirrored to EndpointSlices: %d are not", MaxMirrored, left.TooMany))
	}
}
