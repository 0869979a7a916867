package cluster

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podway/podway/internal/model"
)

const (
	labelProxyName  = "service.kubernetes.io/service-proxy-name"
	defaultAffinity = 3 * time.Hour // Kubernetes' default of sessionAffinityConfig.clientIP.timeoutSeconds
)

func service(s *corev1.Service) *model.Service {
	out := &model.Service{
		Name: model.N(s.Namespace, s.Name), UID: string(s.UID), ResourceVersion: s.ResourceVersion,
		Labels: s.Labels, Annotations: s.Annotations, Created: s.CreationTimestamp.Time, Deleting: s.DeletionTimestamp != nil,
		Type: model.ServiceType(s.Spec.Type), ExternalName: strings.TrimSuffix(s.Spec.ExternalName, "."),
		Headless:            s.Spec.ClusterIP == corev1.ClusterIPNone,
		ExternalIPs:         addrs(s.Spec.ExternalIPs),
		Selector:            s.Spec.Selector,
		PublishNotReady:     s.Spec.PublishNotReadyAddresses,
		InternalPolicyLocal: deref(s.Spec.InternalTrafficPolicy) == corev1.ServiceInternalTrafficPolicyLocal,
		ExternalPolicyLocal: s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal,
		TrafficDistribution: deref(s.Spec.TrafficDistribution),
		HealthCheckNodePort: uint16(s.Spec.HealthCheckNodePort),
		LoadBalancerClass:   deref(s.Spec.LoadBalancerClass),
		RequestedLBIP:       addr(s.Spec.LoadBalancerIP),
		ProxyName:           s.Labels[labelProxyName],
		AllocateNodePorts:   s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts,
	}
	if out.Type == "" {
		out.Type = model.ClusterIP
	}
	out.ClusterIPs = addrs(s.Spec.ClusterIPs)
	if a := addr(s.Spec.ClusterIP); len(out.ClusterIPs) == 0 && a.IsValid() {
		out.ClusterIPs = []netip.Addr{a}
	}
	out.IPFamilies = families(s, out.ClusterIPs)
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		out.AffinityTimeout = affinity(s)
	}
	for _, r := range s.Spec.LoadBalancerSourceRanges {
		if p, err := netip.ParsePrefix(strings.TrimSpace(r)); err == nil {
			out.SourceRanges = append(out.SourceRanges, p.Masked())
		}
	}
	for _, p := range s.Spec.Ports {
		out.Ports = append(out.Ports, servicePort(p))
	}
	if c := meta.FindStatusCondition(s.Status.Conditions, model.AddressCondition); c != nil && c.Status == metav1.ConditionFalse {
		out.NoAddress = c.Message
	}
	for _, in := range s.Status.LoadBalancer.Ingress {
		if a := addr(in.IP); a.IsValid() {
			proxy := deref(in.IPMode) == corev1.LoadBalancerIPModeProxy
			out.LoadBalancerIPs = append(out.LoadBalancerIPs, model.LoadBalancerIP{Addr: a, Proxy: proxy})
		}
	}
	return out
}

func servicePort(p corev1.ServicePort) model.ServicePort {
	out := model.ServicePort{Name: p.Name, Protocol: protocol(p.Protocol), Port: uint16(p.Port), NodePort: uint16(p.NodePort),
		TargetPort: portRef(p.TargetPort), AppProtocol: deref(p.AppProtocol)}
	if out.TargetPort.IsZero() {
		out.TargetPort.Number = out.Port
	}
	return out
}

// families is spec.ipFamilies, which the API server fills in; objects from files may lack it.
func families(s *corev1.Service, clusterIPs []netip.Addr) (out []string) {
	for _, f := range s.Spec.IPFamilies {
		out = append(out, string(f))
	}
	for _, a := range clusterIPs {
		if f := family(a); len(s.Spec.IPFamilies) == 0 && !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	if len(out) == 0 {
		out = []string{string(corev1.IPv4Protocol)}
	}
	return out
}

func family(a netip.Addr) string {
	if a.Is4() {
		return string(corev1.IPv4Protocol)
	}
	return string(corev1.IPv6Protocol)
}

func affinity(s *corev1.Service) time.Duration {
	c := s.Spec.SessionAffinityConfig
	if c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
		return defaultAffinity
	}
	return time.Duration(*c.ClientIP.TimeoutSeconds) * time.Second
}

func serviceCIDR(c *networkingv1.ServiceCIDR) *model.ServiceCIDR {
	out := &model.ServiceCIDR{Name: c.Name}
	for _, r := range c.Spec.CIDRs {
		if p, err := netip.ParsePrefix(r); err == nil {
			out.CIDRs = append(out.CIDRs, p.Masked())
		}
	}
	return out
}

func endpointSlice(s *discoveryv1.EndpointSlice) *model.EndpointSlice {
	out := &model.EndpointSlice{
		Name: model.N(s.Namespace, s.Name), UID: string(s.UID), ResourceVersion: s.ResourceVersion,
		Service:   model.N(s.Namespace, s.Labels[discoveryv1.LabelServiceName]),
		ManagedBy: s.Labels[discoveryv1.LabelManagedBy], Labels: s.Labels, Annotations: s.Annotations,
		AddressType: string(s.AddressType), Deleting: s.DeletionTimestamp != nil,
	}
	for _, o := range s.OwnerReferences {
		if deref(o.Controller) {
			out.OwnerUID = string(o.UID)
		}
	}
	for _, p := range s.Ports {
		out.Ports = append(out.Ports, model.EndpointPort{Name: deref(p.Name), Protocol: protocol(deref(p.Protocol)),
			Port: uint16(deref(p.Port)), AppProtocol: deref(p.AppProtocol)})
	}
	for i := range s.Endpoints {
		if e, ok := endpoint(&s.Endpoints[i]); ok {
			out.Endpoints = append(out.Endpoints, e)
		}
	}
	return out
}

// endpoint converts one endpoint; those without a usable address (FQDN slices) are left out.
func endpoint(e *discoveryv1.Endpoint) (model.Endpoint, bool) {
	if len(e.Addresses) == 0 || !addr(e.Addresses[0]).IsValid() {
		return model.Endpoint{}, false
	}
	ready := e.Conditions.Ready == nil || *e.Conditions.Ready
	out := model.Endpoint{Addr: addr(e.Addresses[0]), Ready: ready, Serving: true, Terminating: deref(e.Conditions.Terminating),
		Hostname: deref(e.Hostname), Node: deref(e.NodeName), Zone: deref(e.Zone)}
	if e.Conditions.Serving != nil {
		out.Serving = *e.Conditions.Serving
	}
	if t := e.TargetRef; t != nil && t.Kind == "Pod" {
		out.Pod, out.PodUID = model.N(t.Namespace, t.Name), string(t.UID)
	}
	if e.Hints != nil {
		for _, z := range e.Hints.ForZones {
			out.ForZones = append(out.ForZones, z.Name)
		}
		for _, n := range e.Hints.ForNodes {
			out.ForNodes = append(out.ForNodes, n.Name)
		}
	}
	return out, true
}

func protocol(p corev1.Protocol) model.Protocol {
	if p == "" {
		return model.TCP
	}
	return model.Protocol(p)
}

func portRef(p intstr.IntOrString) model.PortRef {
	if p.Type == intstr.String && p.StrVal != "" {
		return model.PortRef{Name: p.StrVal}
	}
	return model.PortRef{Number: uint16(p.IntVal)}
}

// addr parses an address as the API writes it; the zero Addr when it is none. IPv4-mapped forms become IPv4.
func addr(s string) netip.Addr {
	a, err := netip.ParseAddr(strings.TrimSpace(s))
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}

func addrs(list []string) (out []netip.Addr) {
	for _, s := range list {
		if a := addr(s); a.IsValid() {
			out = append(out, a)
		}
	}
	return out
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
