package cluster

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podway/podway/internal/model"
)

// namesOnly leaves of an object what DNS names are made of. Endpoints of a Service with a ClusterIP have no names; that a
// slice is a headless Service's, the controllers of EndpointSlices say by a label.
func namesOnly(obj any) any {
	switch o := obj.(type) {
	case *model.Service:
		out := &model.Service{Name: o.Name, Type: o.Type, Headless: o.Headless, ClusterIPs: o.ClusterIPs, ExternalName: o.ExternalName}
		for _, p := range o.Ports {
			out.Ports = append(out.Ports, model.ServicePort{Name: p.Name, Protocol: p.Protocol, Port: p.Port})
		}
		return out
	case *model.EndpointSlice:
		out := &model.EndpointSlice{Name: o.Name, Service: o.Service, AddressType: o.AddressType}
		if _, headless := o.Labels[corev1.IsHeadlessService]; !headless && strings.HasPrefix(o.ManagedBy, "endpointslice-controller.") {
			return out
		}
		out.Ports, out.Endpoints = o.Ports, make([]model.Endpoint, len(o.Endpoints))
		for i, e := range o.Endpoints {
			out.Endpoints[i] = model.Endpoint{Addr: e.Addr, Ready: e.Ready, Serving: e.Serving, Terminating: e.Terminating, Hostname: e.Hostname}
		}
		return out
	case *model.Pod:
		return &model.Pod{Name: o.Name, Addrs: o.Addrs, Phase: o.Phase}
	}
	return obj
}
