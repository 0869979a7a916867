package scenario

import (
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/podway/podway/internal/control/endpointslice"
	"github.com/podway/podway/internal/model"
)

// apiObjects are a state's objects as an API server would show them to another program: with all that the short forms
// left out, and with the API's own defaults.
type apiObjects struct {
	nodes    map[string]*corev1.Node
	services map[string]*corev1.Service            // by "namespace/name"
	slices   map[string]*discoveryv1.EndpointSlice // likewise
}

func newAPIObjects() *apiObjects {
	return &apiObjects{map[string]*corev1.Node{}, map[string]*corev1.Service{}, map[string]*discoveryv1.EndpointSlice{}}
}

// put takes an object of the file.
func (a *apiObjects) put(o any) {
	switch o := o.(type) {
	case *corev1.Node:
		a.nodes[o.Name] = o
	case *corev1.Service:
		defaultService(o)
		a.services[model.N(o.Namespace, o.Name).String()] = o
	case *discoveryv1.EndpointSlice:
		defaultSlice(o)
		a.slices[model.N(o.Namespace, o.Name).String()] = o
	}
}

// complete adds what podway's controllers would have written: slices, and addresses of load balancers.
func (a *apiObjects) complete(s *model.Snapshot) {
	for sl := range s.Slices.Values() {
		if name := sl.Name.String(); a.slices[name] == nil {
			a.slices[name] = endpointslice.Encode(sl)
		}
	}
	for svc := range s.Services.Values() {
		o := a.services[svc.Name.String()]
		if o == nil || len(o.Status.LoadBalancer.Ingress) > 0 {
			continue
		}
		for _, ip := range svc.LoadBalancerIPs {
			o.Status.LoadBalancer.Ingress = append(o.Status.LoadBalancer.Ingress, corev1.LoadBalancerIngress{IP: ip.Addr.String()})
		}
	}
}

// defaultService fills in what the API server does and other programs rely on.
func defaultService(s *corev1.Service) {
	sp := &s.Spec
	for i := range sp.Ports {
		if sp.Ports[i].Protocol == "" {
			sp.Ports[i].Protocol = corev1.ProtocolTCP
		}
	}
	if len(sp.ClusterIPs) == 0 && sp.ClusterIP != "" {
		sp.ClusterIPs = []string{sp.ClusterIP}
	}
	if sp.ClusterIP == "" && len(sp.ClusterIPs) > 0 {
		sp.ClusterIP = sp.ClusterIPs[0]
	}
	if len(sp.IPFamilies) == 0 {
		for _, ip := range sp.ClusterIPs {
			sp.IPFamilies = append(sp.IPFamilies, familyOf(ip))
		}
	}
	if sp.SessionAffinity != corev1.ServiceAffinityClientIP {
		return
	}
	if sp.SessionAffinityConfig == nil {
		sp.SessionAffinityConfig = &corev1.SessionAffinityConfig{}
	}
	if sp.SessionAffinityConfig.ClientIP == nil {
		sp.SessionAffinityConfig.ClientIP = &corev1.ClientIPConfig{}
	}
	if sp.SessionAffinityConfig.ClientIP.TimeoutSeconds == nil {
		seconds := int32(corev1.DefaultClientIPServiceAffinitySeconds)
		sp.SessionAffinityConfig.ClientIP.TimeoutSeconds = &seconds
	}
}

func familyOf(ip string) corev1.IPFamily {
	for _, c := range ip {
		if c == ':' {
			return corev1.IPv6Protocol
		}
	}
	return corev1.IPv4Protocol
}

func defaultSlice(s *discoveryv1.EndpointSlice) {
	for i := range s.Ports {
		p := &s.Ports[i]
		if p.Name == nil {
			p.Name = new(string)
		}
		if p.Protocol == nil {
			tcp := corev1.ProtocolTCP
			p.Protocol = &tcp
		}
	}
}
