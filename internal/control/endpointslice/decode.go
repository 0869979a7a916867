package endpointslice

import (
	"cmp"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	netutils "k8s.io/utils/net"

	"github.com/podway/podway/internal/model"
)

// decodeSlice reads an API object back after a write failed; the usual way in is by snapshot.
func decodeSlice(s *discoveryv1.EndpointSlice) *model.EndpointSlice {
	out := &model.EndpointSlice{Name: model.N(s.Namespace, s.Name), UID: string(s.UID), ResourceVersion: s.ResourceVersion,
		Service: model.N(s.Namespace, s.Labels[labelServiceName]), ManagedBy: s.Labels[labelManagedBy], Labels: s.Labels,
		Annotations: s.Annotations, AddressType: string(s.AddressType), Deleting: s.DeletionTimestamp != nil}
	if o := metav1.GetControllerOf(s); o != nil {
		out.OwnerUID = string(o.UID)
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, model.EndpointPort{Name: val(p.Name), Protocol: model.Protocol(val(p.Protocol)),
			Port: uint16(val(p.Port)), AppProtocol: val(p.AppProtocol)})
	}
	for i := range s.Endpoints {
		e := &s.Endpoints[i]
		if len(e.Addresses) == 0 {
			continue
		}
		a, _ := netip.ParseAddr(e.Addresses[0])
		ready := e.Conditions.Ready == nil || *e.Conditions.Ready
		o := model.Endpoint{Addr: a.Unmap(), Ready: ready, Serving: ready, Terminating: val(e.Conditions.Terminating),
			Hostname: val(e.Hostname), Node: val(e.NodeName), Zone: val(e.Zone)}
		if e.Conditions.Serving != nil {
			o.Serving = *e.Conditions.Serving
		}
		o.Pod, o.PodUID = podOf(e.TargetRef)
		if e.Hints != nil {
			for _, z := range e.Hints.ForZones {
				o.ForZones = append(o.ForZones, z.Name)
			}
			for _, n := range e.Hints.ForNodes {
				o.ForNodes = append(o.ForNodes, n.Name)
			}
		}
		out.Endpoints = append(out.Endpoints, o)
	}
	return out
}

// decodeEndpoints reads a v1 Endpoints object.
func decodeEndpoints(e *corev1.Endpoints) *Endpoints { //nolint:staticcheck // deprecated, and still in use
	out := &Endpoints{Name: model.N(e.Namespace, e.Name), UID: string(e.UID), ResourceVersion: e.ResourceVersion,
		Labels: e.Labels, Annotations: e.Annotations, Deleting: e.DeletionTimestamp != nil}
	for _, s := range e.Subsets {
		sub := Subset{Ready: out.addresses(s.Addresses), NotReady: out.addresses(s.NotReadyAddresses)}
		for _, p := range s.Ports {
			sub.Ports = append(sub.Ports, model.EndpointPort{Name: p.Name, Protocol: cmp.Or(model.Protocol(p.Protocol), model.TCP),
				Port: uint16(p.Port), AppProtocol: val(p.AppProtocol)})
		}
		out.Subsets = append(out.Subsets, sub)
	}
	if len(out.Subsets) > 1 {
		out.Subsets = repack(out.Subsets)
	}
	out.normalize()
	return out
}

func (e *Endpoints) addresses(list []corev1.EndpointAddress) (out []Address) {
	for _, a := range list {
		ip, ok := netip.AddrFromSlice(netutils.ParseIPSloppy(a.IP)) // old objects may have zeros in front
		if !ok {
			e.Invalid++
			continue
		}
		o := Address{Addr: ip.Unmap(), Hostname: a.Hostname, Node: val(a.NodeName)}
		o.Pod, o.PodUID = podOf(a.TargetRef)
		out = append(out, o)
	}
	return out
}

func podOf(t *corev1.ObjectReference) (model.Name, string) {
	if t == nil || t.Kind != "Pod" {
		return model.Name{}, ""
	}
	return model.N(t.Namespace, t.Name), string(t.UID)
}

func val[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
