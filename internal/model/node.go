package model

import (
	"net/netip"
	"time"
)

// Node is a Kubernetes Node.
type Node struct {
	Name        string
	UID         string
	Addrs       []netip.Addr   // InternalIP addresses, in the order of status.addresses; then ExternalIP
	PodCIDRs    []netip.Prefix // spec.podCIDRs
	Ready       bool           // condition Ready is True
	Zone        string         // label topology.kubernetes.io/zone
	CPU         int64          // status.allocatable.cpu, in thousandths of a core
	ExcludeLB   bool           // label node.kubernetes.io/exclude-from-external-load-balancers is present
	Deleting    bool
	Leaving     bool // tainted ToBeDeletedByClusterAutoscaler: an autoscaler is about to take it away
	Labels      map[string]string
	Annotations map[string]string // only those with the prefix podway.io/
}

// Addr returns the node's first address of the family (is4), or the zero Addr.
func (n *Node) Addr(is4 bool) netip.Addr {
	for _, a := range n.Addrs {
		if a.Is4() == is4 {
			return a
		}
	}
	return netip.Addr{}
}

// Pod is a Kubernetes Pod as far as the network needs it.
type Pod struct {
	Name            Name
	UID             string
	ResourceVersion string
	Labels          map[string]string
	Node            string
	Addrs           []netip.Addr // status.podIPs
	HostNetwork     bool
	Phase           string // Pending, Running, Succeeded, Failed, Unknown
	Ready           bool
	ReadySince      time.Time // last transition of the Ready condition
	Deleting        bool
	Hostname        string // spec.hostname, only if it may be published with Subdomain
	Subdomain       string
	Ports           []ContainerPort // of all containers, then of restartable init containers
	Problem         string          // why it is not Ready, as the API says it: "ContainersNotReady: ...", "CrashLoopBackOff"
	Probe           string          // its readiness probes in words: "GET :8080/healthz", for people
}

// Terminal reports whether the Pod has ended for good; its address may already belong to another.
func (p *Pod) Terminal() bool { return p.Phase == "Succeeded" || p.Phase == "Failed" }

// ContainerPort is a declared port of a Pod. Declaring a number is informational; a name is what targetPort may refer to.
type ContainerPort struct {
	Name     string
	Protocol Protocol
	Port     uint16
	HostPort uint16
	HostIP   netip.Addr
}

// Workload is a thing that makes Pods: a Deployment, StatefulSet or DaemonSet. Only trace reads it.
type Workload struct {
	Kind     string
	Name     Name
	Replicas int               // wanted; DaemonSets -1
	Labels   map[string]string // of the Pod template
}
