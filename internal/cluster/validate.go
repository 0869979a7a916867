package cluster

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// validate checks what the API server would have refused and what the conversion would otherwise cut off silently:
// port numbers and addresses. Objects from an API server need no check.
func validate(obj metav1.Object) error {
	var v validation
	switch o := obj.(type) {
	case *corev1.Service:
		v.service(o)
	case *discoveryv1.EndpointSlice:
		for i, p := range o.Ports {
			v.port(fmt.Sprintf("ports[%d].port", i), deref(p.Port), true)
		}
		for i, e := range o.Endpoints {
			for j, a := range e.Addresses {
				if o.AddressType != discoveryv1.AddressTypeFQDN {
					v.address(fmt.Sprintf("endpoints[%d].addresses[%d]", i, j), a)
				}
			}
		}
	case *corev1.Pod:
		for i, ip := range o.Status.PodIPs {
			v.address(fmt.Sprintf("status.podIPs[%d].ip", i), ip.IP)
		}
		for i, c := range o.Spec.Containers {
			for j, p := range c.Ports {
				v.port(fmt.Sprintf("spec.containers[%d].ports[%d].containerPort", i, j), p.ContainerPort, false)
			}
		}
	case *corev1.Node:
		for i, a := range o.Status.Addresses {
			if a.Type == corev1.NodeInternalIP || a.Type == corev1.NodeExternalIP {
				v.address(fmt.Sprintf("status.addresses[%d].address", i), a.Address)
			}
		}
		for i, c := range o.Spec.PodCIDRs {
			v.prefix(fmt.Sprintf("spec.podCIDRs[%d]", i), c)
		}
	case *networkingv1.Ingress:
		for i, r := range o.Spec.Rules {
			if r.HTTP == nil {
				continue
			}
			for j, p := range r.HTTP.Paths {
				if b := p.Backend.Service; b != nil {
					v.port(fmt.Sprintf("spec.rules[%d].http.paths[%d].backend.service.port.number", i, j), b.Port.Number, true)
				}
			}
		}
	}
	return errors.Join(v...)
}

type validation []error

func (v *validation) service(s *corev1.Service) {
	for i, p := range s.Spec.Ports {
		v.port(fmt.Sprintf("spec.ports[%d].port", i), p.Port, false)
		v.port(fmt.Sprintf("spec.ports[%d].nodePort", i), p.NodePort, true)
		v.port(fmt.Sprintf("spec.ports[%d].targetPort", i), p.TargetPort.IntVal, true)
	}
	for i, a := range s.Spec.ClusterIPs {
		if a != corev1.ClusterIPNone {
			v.address(fmt.Sprintf("spec.clusterIPs[%d]", i), a)
		}
	}
	if a := s.Spec.ClusterIP; a != "" && a != corev1.ClusterIPNone {
		v.address("spec.clusterIP", a)
	}
	for i, a := range s.Spec.ExternalIPs {
		v.address(fmt.Sprintf("spec.externalIPs[%d]", i), a)
	}
	if a := s.Spec.LoadBalancerIP; a != "" {
		v.address("spec.loadBalancerIP", a)
	}
	for i, r := range s.Spec.LoadBalancerSourceRanges {
		v.prefix(fmt.Sprintf("spec.loadBalancerSourceRanges[%d]", i), strings.TrimSpace(r))
	}
}

func (v *validation) port(field string, n int32, zeroOK bool) {
	if n < 0 || n > 65535 || n == 0 && !zeroOK {
		*v = append(*v, fmt.Errorf("%s: %d is no port (1-65535)", field, n))
	}
}

func (v *validation) address(field, s string) {
	if !addr(s).IsValid() {
		*v = append(*v, fmt.Errorf("%s: %q is no IP address", field, s))
	}
}

func (v *validation) prefix(field, s string) {
	if _, err := netip.ParsePrefix(s); err != nil {
		*v = append(*v, fmt.Errorf("%s: %q is no address range (CIDR)", field, s))
	}
}
