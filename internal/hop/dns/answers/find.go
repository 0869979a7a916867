package answers

import (
	"net/netip"
	"unsafe"
)

// node is where a name leads.
type node struct {
	ours   bool       // in one of our zones, or a reverse name that we know
	exists bool       // else NXDOMAIN
	e      *entry     // nil for an empty non-terminal
	addr   netip.Addr // the one record of a name that holds it
	apex   int        // label at which the zone begins: the owner of its SOA
	in     Zone       // for metrics and SOA
}

// Zone says which kind of zone a name is in.
type Zone uint8

// The zones.
const (
	Elsewhere Zone = iota // not ours
	Cluster               // the cluster domain
	Reverse               // in-addr.arpa or ip6.arpa
)

// find looks the name of q up.
func (v *View) find(q *Query) node {
	if front, ok := q.under(v.name, v.labels); ok {
		n := v.findCluster(q, front)
		n.ours, n.in, n.apex = true, Cluster, front
		return n
	}
	return v.findReverse(q)
}

// findCluster looks up a name with front labels in front of the cluster domain.
func (v *View) findCluster(q *Query, front int) node {
	if front == 0 {
		return node{exists: true, e: v.zone.apex}
	}
	switch string(q.label(front - 1)) {
	case "svc":
		return v.findService(q, front-1)
	case "pod":
		if v.pods {
			return v.findPod(q, front-1)
		}
	case "dns-version":
		return node{exists: front == 1, e: v.version}
	case "dns":
		if front == 2 && string(q.label(0)) == "ns" {
			return node{exists: true, e: v.ns}
		}
		return node{exists: front == 1}
	}
	return node{}
}

// findService looks up a name with front labels in front of svc: [below...] service namespace.
func (v *View) findService(q *Query, front int) node {
	switch front {
	case 0:
		return node{exists: true}
	case 1:
		return node{exists: v.space(q.name[:q.starts[1]]) > 0}
	}
	begin, end := q.starts[front-2], q.starts[front]
	s := v.service(q.name[begin:end])
	switch {
	case s == nil:
		return node{}
	case begin == 0:
		return node{exists: true, e: s.self}
	}
	e, ok := s.below[string(q.name[:begin])]
	return node{exists: ok, e: e}
}

// service looks a Service up by its two labels. The key is only borrowed for the look-up.
func (v *View) service(key []byte) *service {
	if v.from != nil {
		return v.compiled(string(key))
	}
	return v.services.At(unsafe.String(unsafe.SliceData(key), len(key)))
}

// space counts the Services with names in a namespace, given as its label in wire format.
func (v *View) space(label []byte) int {
	if v.from != nil {
		return v.compiledSpace(string(label))
	}
	return v.spaces.At(unsafe.String(unsafe.SliceData(label), len(label)))
}
