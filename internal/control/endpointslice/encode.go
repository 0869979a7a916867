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
	addrs := make([]string, len(s.Endpoints))
	conds := make([]struct{ ready, serving, terminating bool }, len(s.Endpoints))
	for i := range s.Endpoints {
		e, o, c := &s.Endpoints[i], &out.Endpoints[i], &conds[i]
		addrs[i] = e.Addr.String()
		o.Addresses = addrs[i : i+1 : i+1]
		c.ready, c.serving, c.terminating = e.Ready, e.Serving, e.Terminating
		o.Conditions = discoveryv1.EndpointConditions{Ready: &c.ready, Serving: &c.serving, Terminating: &c.terminating}
		o.Hostname, o.NodeName, o.Zone = orNil(e.Hostname), orNil(e.Node), orNil(e.Zone)
		o.TargetRef, o.Hints = podRef(e.Pod, e.PodUID), hints(e)
	}
	return out
}

func owner(s *model.EndpointSlice) metav1.OwnerReference {
	kind, yes := "Service", true
	if s.ManagedBy == MirroredBy {
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
