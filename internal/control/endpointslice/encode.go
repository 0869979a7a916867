package endpointslice

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podway/podway/internal/model"
)

// encodeSlice is the API object of a slice. One without a name gets a generated one.
func encodeSlice(s *model.EndpointSlice) *discoveryv1.EndpointSlice {
	out := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Name.Namespace, Name: s.Name.Name, UID: types.UID(s.UID),
			ResourceVersion: s.ResourceVersion, Labels: s.Labels, Annotations: s.Annotations,
			OwnerReferences: []metav1.OwnerReference{owner(s)}},
		AddressType: discoveryv1.AddressType(s.AddressType),
		Ports:       make([]discoveryv1.EndpointPort, len(s.Ports)),
		Endpoints:   make([]discoveryv1.Endpoint, len(s.Endpoints)),
	}
	if s.Name.Name == "" {
		out.GenerateName = s.Service.Name + "-"
	}
	for i, p := range s.Ports {
		port, proto := int32(p.Port), corev1.Protocol(p.Protocol)
		out.Ports[i] = discoveryv1.EndpointPort{Name: &p.Name, Protocol: &proto, Port: &port, AppProtocol: orNil(p.AppProtocol)}
	}
	encodeEndpointsOf(s, out.Endpoints)
	return out
}

// encodeEndpointsOf makes few large allocations in place of many small ones; what does not change is shared with s.
func encodeEndpointsOf(s *model.EndpointSlice, into []discoveryv1.Endpoint) {
	yes, no := true, false
	is := func(b bool) *bool {
		if b {
			return &yes
		}
		return &no
	}
	addrs, refs := make([]string, len(into)), make([]corev1.ObjectReference, len(into))
	for i := range s.Endpoints {
		e, o := &s.Endpoints[i], &into[i]
		addrs[i] = e.Addr.String()
		o.Addresses = addrs[i : i+1 : i+1]
		o.Conditions = discoveryv1.EndpointConditions{Ready: is(e.Ready), Serving: is(e.Serving), Terminating: is(e.Terminating)}
		o.Hostname, o.NodeName, o.Zone = orNone(&e.Hostname), orNone(&e.Node), orNone(&e.Zone)
		if e.Pod.Name != "" {
			refs[i] = corev1.ObjectReference{Kind: "Pod", Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: types.UID(e.PodUID)}
			o.TargetRef = &refs[i]
		}
		o.Hints = hints(e)
	}
}

// orNone is the pointer, nil when the string is empty.
func orNone(s *string) *string {
	if *s == "" {
		return nil
	}
	return s
}

func owner(s *model.EndpointSlice) metav1.OwnerReference {
	kind, yes := "Service", true
	if isMirrored(s) {
		kind = "Endpoints"
	}
	return metav1.OwnerReference{APIVersion: "v1", Kind: kind, Name: s.Service.Name, UID: types.UID(s.OwnerUID),
		Controller: &yes, BlockOwnerDeletion: &yes}
}

func podRef(n model.Name, uid string) *corev1.ObjectReference {
	if n.Name == "" {
		return nil
	}
	return &corev1.ObjectReference{Kind: "Pod", Namespace: n.Namespace, Name: n.Name, UID: types.UID(uid)}
}

func hints(e *model.Endpoint) *discoveryv1.EndpointHints {
	if len(e.ForZones)+len(e.ForNodes) == 0 {
		return nil
	}
	out := &discoveryv1.EndpointHints{}
	for _, z := range e.ForZones {
		out.ForZones = append(out.ForZones, discoveryv1.ForZone{Name: z})
	}
	for _, n := range e.ForNodes {
		out.ForNodes = append(out.ForNodes, discoveryv1.ForNode{Name: n})
	}
	return out
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// encodeEndpoints is the API object of an Endpoints.
func encodeEndpoints(e *Endpoints) *corev1.Endpoints { //nolint:staticcheck // Endpoints are deprecated, and still read
	out := &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: e.Name.Namespace, Name: e.Name.Name,
		UID: types.UID(e.UID), ResourceVersion: e.ResourceVersion, Labels: e.Labels, Annotations: e.Annotations}}
	for _, s := range e.Subsets {
		sub := corev1.EndpointSubset{Addresses: encodeAddresses(s.Ready), NotReadyAddresses: encodeAddresses(s.NotReady)}
		for _, p := range s.Ports {
			sub.Ports = append(sub.Ports, corev1.EndpointPort{Name: p.Name, Port: int32(p.Port),
				Protocol: corev1.Protocol(p.Protocol), AppProtocol: orNil(p.AppProtocol)})
		}
		out.Subsets = append(out.Subsets, sub)
	}
	return out
}

func encodeAddresses(list []Address) []corev1.EndpointAddress {
	out := make([]corev1.EndpointAddress, 0, len(list))
	for _, a := range list {
		out = append(out, corev1.EndpointAddress{IP: a.Addr.String(), Hostname: a.Hostname, NodeName: orNil(a.Node),
			TargetRef: podRef(a.Pod, a.PodUID)})
	}
	return out
}
