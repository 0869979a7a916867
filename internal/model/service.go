package model

import (
	"net/netip"
	"time"
)

// ServiceType is spec.type of a Service.
type ServiceType string

// The Service types.
const (
	ClusterIP    ServiceType = "ClusterIP"
	NodePort     ServiceType = "NodePort"
	LoadBalancer ServiceType = "LoadBalancer"
	ExternalName ServiceType = "ExternalName"
)

// Service is a Kubernetes Service with its defaults filled in.
type Service struct {
	Name            Name
	UID             string
	ResourceVersion string
	Labels          map[string]string
	Annotations     map[string]string
	Created         time.Time
	Deleting        bool // deletionTimestamp is set

	Type         ServiceType
	Headless     bool // clusterIP: None
	ClusterIPs   []netip.Addr
	ExternalIPs  []netip.Addr
	ExternalName string   // type ExternalName: the target name, without final dot
	IPFamilies   []string // "IPv4", "IPv6" in order of preference
	Ports        []ServicePort

	Selector            map[string]string // nil: endpoints are kept by somebody else
	PublishNotReady     bool              // publishNotReadyAddresses
	InternalPolicyLocal bool              // internalTrafficPolicy: Local
	ExternalPolicyLocal bool              // externalTrafficPolicy: Local
	AffinityTimeout     time.Duration     // sessionAffinity: ClientIP; 0 = none
	TrafficDistribution string            // "", PreferClose, PreferSameZone, PreferSameNode
	SourceRanges        []netip.Prefix    // loadBalancerSourceRanges; empty = all
	HealthCheckNodePort uint16
	LoadBalancerClass   string
	RequestedLBIP       netip.Addr       // spec.loadBalancerIP (deprecated, honoured)
	LoadBalancerIPs     []LoadBalancerIP // status.loadBalancer.ingress with an address
	NoAddress           string           // why it has none, in the words of the controller: condition AddressCondition is False
	ProxyName           string           // label service.kubernetes.io/service-proxy-name; not empty = not ours
	AllocateNodePorts   bool             // allocateLoadBalancerNodePorts
}

// AddressCondition is the condition of a Service by which podway's controller says whether it gave an address.
const AddressCondition = "podway.io/AddressAllocated"

// LoadBalancerIP is one address in a Service's load balancer status.
type LoadBalancerIP struct {
	Addr  netip.Addr
	Proxy bool // ipMode: Proxy: traffic for it must not be short-cut in the cluster (KEP-1860)
}

// ServicePort is one port of a Service.
type ServicePort struct {
	Name        string
	Protocol    Protocol
	Port        uint16
	NodePort    uint16 // 0 = none
	TargetPort  PortRef
	AppProtocol string
}

// HasClusterIP reports whether the Service has a virtual address in the cluster.
func (s *Service) HasClusterIP() bool {
	return s.Type != ExternalName && !s.Headless && len(s.ClusterIPs) > 0
}

// Selects reports whether the labels have all that the selector asks for. An empty selector selects everything; a Service
// without one selects nothing, which is for the caller to know.
func Selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if have, ok := labels[k]; !ok || have != v {
			return false
		}
	}
	return true
}

// EndpointSlice is one slice of a Service's endpoints (KEP-752). All its endpoints share Ports.
type EndpointSlice struct {
	Name            Name
	UID             string
	ResourceVersion string
	Service         Name   // label kubernetes.io/service-name; Name.Name "" = none
	ManagedBy       string // label endpointslice.kubernetes.io/managed-by
	Labels          map[string]string
	Annotations     map[string]string
	OwnerUID        string // UID of the controlling owner: the Service, or the Endpoints that it mirrors
	Deleting        bool   // deletionTimestamp is set
	AddressType     string // IPv4, IPv6, FQDN
	Ports           []EndpointPort
	Endpoints       []Endpoint
}

// EndpointPort is a port of a slice; it belongs to the Service port of the same name and protocol.
type EndpointPort struct {
	Name        string
	Protocol    Protocol
	Port        uint16 // 0 = any port (Kubernetes: nil)
	AppProtocol string
}

// Endpoint is one backend. Only the first address of the Kubernetes object counts.
type Endpoint struct {
	Addr        netip.Addr
	Ready       bool // nil in the API = true
	Serving     bool // nil = true
	Terminating bool
	Hostname    string
	Node        string
	Zone        string
	Pod         Name // targetRef of kind Pod, or zero
	PodUID      string
	ForZones    []string // hints
	ForNodes    []string
}

// Backends is all slices of one Service, ordered by name. It is nil for a Service without slices.
type Backends struct{ Slices []*EndpointSlice }

// Each calls f for every endpoint of every slice.
func (b *Backends) Each(f func(*EndpointSlice, *Endpoint)) {
	if b == nil {
		return
	}
	for _, s := range b.Slices {
		for i := range s.Endpoints {
			f(s, &s.Endpoints[i])
		}
	}
}

// ServiceCIDR is a networking.k8s.io/v1 ServiceCIDR: ranges from which ClusterIPs are given (KEP-1880).
type ServiceCIDR struct {
	Name  string
	CIDRs []netip.Prefix
}
