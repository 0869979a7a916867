package endpointslice

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

const (
	labelEndpointsBy = "endpoints.kubernetes.io/managed-by"

	// MaxAddresses is how many addresses an Endpoints object may hold.
	MaxAddresses = 1000
)

// Endpoints is a v1 Endpoints object, the ancestor of slices: all addresses of a Service in one object.
type Endpoints struct {
	Name            model.Name
	UID             string
	ResourceVersion string
	Labels          map[string]string
	Annotations     map[string]string
	Subsets         []Subset
	Invalid         int  // addresses that are no IP address; they are left out
	Deleting        bool // deletionTimestamp is set
}

// Subset is addresses that share ports.
type Subset struct {
	Ready, NotReady []Address
	Ports           []model.EndpointPort
}

// Address is one backend of a Subset.
type Address struct {
	Addr     netip.Addr
	Hostname string
	Node     string
	Pod      model.Name
	PodUID   string
}

// DesiredEndpoints is the Endpoints object of a Service with a selector: the addresses of its first family, without Pods
// that are on their way out unless the Service publishes all; at most MaxAddresses, ready ones first. It is nil when the
// Service should have none.
func DesiredEndpoints(svc *model.Service, pods []*model.Pod, nodes Nodes) *Endpoints {
	return podwayNames.desiredEndpoints(svc, pods, nodes)
}

func (by names) desiredEndpoints(svc *model.Service, pods []*model.Pod, nodes Nodes) *Endpoints {
	if len(svc.Selector) == 0 || svc.Type == model.ExternalName || svc.Deleting || len(svc.IPFamilies) == 0 {
		return nil
	}
	if !svc.PublishNotReady {
		pods = slices.DeleteFunc(slices.Clone(pods), func(p *model.Pod) bool { return p.Deleting })
	}
	out := &Endpoints{Name: svc.Name, Labels: by.endpointsLabels(svc)}
	groups := newGrouper(svc, nodes).groups(svc.IPFamilies[0], pods)
	for _, key := range sortedKeys(groups) {
		g := groups[key]
		if len(g.ports) == 0 && len(svc.Ports) > 0 {
			continue // no port of the Service resolves in these Pods
		}
		sub := Subset{Ports: g.ports}
		for _, e := range g.endpoints {
			a := Address{Addr: e.Addr, Hostname: e.Hostname, Node: e.Node, Pod: e.Pod, PodUID: e.PodUID}
			if e.Ready {
				sub.Ready = append(sub.Ready, a)
			} else {
				sub.NotReady = append(sub.NotReady, a)
			}
		}
		out.Subsets = append(out.Subsets, sub)
	}
	if len(out.Subsets) > 1 {
		out.Subsets = repack(out.Subsets)
	}
	out.normalize()
	if truncate(out.Subsets) {
		out.Annotations = map[string]string{annotationOverCapacity: "truncated"}
	}
	return out
}

func (by names) endpointsLabels(svc *model.Service) map[string]string {
	out := make(map[string]string, len(svc.Labels)+2)
	maps.Copy(out, svc.Labels)
	delete(out, labelHeadless)
	if !svc.HasClusterIP() {
		out[labelHeadless] = ""
	}
	out[labelEndpointsBy] = by.endpoints
	return out
}

// normalize puts everything in one order, so that equal objects compare equal.
func (e *Endpoints) normalize() {
	for i := range e.Subsets {
		s := &e.Subsets[i]
		slices.SortStableFunc(s.Ready, Address.compare)
		slices.SortStableFunc(s.NotReady, Address.compare)
		s.Ports = slices.Clone(s.Ports)
		slices.SortFunc(s.Ports, func(a, b model.EndpointPort) int { return strings.Compare(portKey(a), portKey(b)) })
	}
	slices.SortFunc(e.Subsets, func(a, b Subset) int { return strings.Compare(portsKey(a.Ports), portsKey(b.Ports)) })
}

// compare knows no order among entries for one address and Pod: of these, the first counts.
func (a Address) compare(b Address) int {
	return cmp.Or(a.Addr.Compare(b.Addr), strings.Compare(a.PodUID, b.PodUID))
}

// truncate cuts the subsets to MaxAddresses in all, not ready ones first, and each subset by the same share.
func truncate(subsets []Subset) bool {
	ready, notReady := 0, 0
	for _, s := range subsets {
		ready, notReady = ready+len(s.Ready), notReady+len(s.NotReady)
	}
	if ready+notReady <= MaxAddresses {
		return false
	}
	readyLeft := min(ready, MaxAddresses)
	notReadyLeft := MaxAddresses - readyLeft
	for i := range subsets {
		s := &subsets[i]
		s.Ready, ready, readyLeft = share(s.Ready, ready, readyLeft)
		s.NotReady, notReady, notReadyLeft = share(s.NotReady, notReady, notReadyLeft)
	}
	return true
}

// share keeps the part of list that is list's part of all, and returns what is left of all and of room.
func share(list []Address, all, room int) ([]Address, int, int) {
	if all == 0 {
		return list, 0, room
	}
	n := len(list) * room / all
	return list[:n:n], all - len(list), room - n
}

// same reports whether the object says what want says. The time of the last change does not count.
func (e *Endpoints) same(want *Endpoints) bool {
	return maps.Equal(e.Labels, want.Labels) && e.Annotations[annotationOverCapacity] == want.Annotations[annotationOverCapacity] &&
		slices.EqualFunc(e.Subsets, want.Subsets, func(a, b Subset) bool {
			return slices.Equal(a.Ready, b.Ready) && slices.Equal(a.NotReady, b.NotReady) && slices.Equal(a.Ports, b.Ports)
		})
}
