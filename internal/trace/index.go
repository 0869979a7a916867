package trace

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Index finds the objects behind addresses. It is built once per snapshot and only read.
type Index struct {
	s        *model.Snapshot
	services map[netip.Addr][]*model.Service // by ClusterIP, external IP and load balancer address
	pods     map[netip.Addr][]*model.Pod     // Pods that have not ended, hostNetwork last
	nodes    map[netip.Addr]*model.Node
	nodePort map[portKey]*model.Service
	ranges   []netip.Prefix // of Pods, beside the nodes'
}

type portKey struct {
	proto flow.Proto
	port  uint16
}

// NewIndex reads the whole snapshot once.
func NewIndex(s *model.Snapshot) *Index {
	x := &Index{s: s, services: map[netip.Addr][]*model.Service{}, pods: map[netip.Addr][]*model.Pod{},
		nodes: map[netip.Addr]*model.Node{}, nodePort: map[portKey]*model.Service{}}
	for _, svc := range model.Sorted(s.Services, func(a, b *model.Service) int { return a.Name.Compare(b.Name) }) {
		x.addService(svc)
	}
	for _, p := range model.Sorted(s.Pods, func(a, b *model.Pod) int {
		return cmp.Or(boolCompare(a.HostNetwork, b.HostNetwork), a.Name.Compare(b.Name))
	}) {
		if p.Terminal() {
			continue
		}
		for _, a := range p.Addrs {
			x.pods[a] = append(x.pods[a], p)
		}
	}
	for n := range s.Nodes.Values() {
		for _, a := range n.Addrs {
			x.nodes[a] = n
		}
	}
	return x
}

func (x *Index) addService(svc *model.Service) {
	for _, a := range serviceAddrs(svc) {
		x.services[a] = append(x.services[a], svc)
	}
	for _, p := range svc.Ports {
		if k := (portKey{protoOf(p.Protocol), p.NodePort}); p.NodePort != 0 && x.nodePort[k] == nil {
			x.nodePort[k] = svc
		}
	}
}

// serviceAddrs is every address that a Service answers at, except the nodes'.
func serviceAddrs(svc *model.Service) []netip.Addr {
	if svc.Type == model.ExternalName {
		return nil
	}
	out := slices.Clone(svc.ExternalIPs)
	if svc.HasClusterIP() {
		out = append(out, svc.ClusterIPs...)
	}
	for _, l := range svc.LoadBalancerIPs {
		out = append(out, l.Addr)
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// service returns the Service and its port that own dst, by address, or by node port when dst is a node's. A Service that
// owns the address but not the port is returned with a nil port.
func (x *Index) service(dst netip.AddrPort, proto flow.Proto) (*model.Service, *model.ServicePort) {
	owners := x.services[dst.Addr()]
	for _, svc := range owners {
		if p := servicePort(svc, dst.Port(), proto); p != nil {
			return svc, p
		}
	}
	if _, ok := x.nodes[dst.Addr()]; ok {
		if svc := x.nodePort[portKey{proto, dst.Port()}]; svc != nil {
			for i := range svc.Ports {
				if svc.Ports[i].NodePort == dst.Port() && protoOf(svc.Ports[i].Protocol) == proto {
					return svc, &svc.Ports[i]
				}
			}
		}
	}
	if len(owners) > 0 {
		return owners[0], nil
	}
	return nil, nil
}

func servicePort(svc *model.Service, port uint16, proto flow.Proto) *model.ServicePort {
	for i := range svc.Ports {
		if svc.Ports[i].Port == port && protoOf(svc.Ports[i].Protocol) == proto {
			return &svc.Ports[i]
		}
	}
	return nil
}

func protoOf(p model.Protocol) flow.Proto { return flow.Proto(strings.ToLower(string(p))) }

// external reports whether a is an address that a node must announce: a load balancer or external address.
func (x *Index) external(a netip.Addr) bool {
	for _, svc := range x.services[a] {
		if slices.Contains(svc.ExternalIPs, a) || slices.ContainsFunc(svc.LoadBalancerIPs, func(l model.LoadBalancerIP) bool { return l.Addr == a }) {
			return true
		}
	}
	return false
}

// pod returns the Pod at the target; of is the Service whose endpoints are preferred, which tells Pods on the host's
// network apart. It is nil for an address that is no Pod's.
func (x *Index) pod(t netip.AddrPort, of model.Name) *model.Pod {
	var found *model.Pod
	x.s.Backends(of).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		if found == nil && e.Addr == t.Addr() && e.Pod.Name != "" && hasPort(sl, t.Port()) {
			found = x.s.Pods.At(e.Pod)
		}
	})
	if found != nil {
		return found
	}
	all := x.pods[t.Addr()]
	for _, p := range all {
		if !p.HostNetwork || slices.ContainsFunc(p.Ports, func(c model.ContainerPort) bool { return c.Port == t.Port() }) {
			return p
		}
	}
	return nil
}

// hasPort reports whether the slice's endpoints serve the port; Pods on one host's network differ in nothing else.
func hasPort(sl *model.EndpointSlice, port uint16) bool {
	return slices.ContainsFunc(sl.Ports, func(p model.EndpointPort) bool { return p.Port == port || p.Port == 0 })
}

// endpoint returns the endpoint at the target's address in the Service's slices, or nil.
func (x *Index) endpoint(t netip.AddrPort, of model.Name) *model.Endpoint {
	var found *model.Endpoint
	x.s.Backends(of).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		if found == nil && e.Addr == t.Addr() {
			found = e
		}
	})
	return found
}

// readyNode returns the first ready node by name, or any.
func (x *Index) readyNode() *model.Node {
	all := model.Sorted(x.s.Nodes, func(a, b *model.Node) int {
		return cmp.Or(boolCompare(!a.Ready, !b.Ready), strings.Compare(a.Name, b.Name))
	})
	if len(all) == 0 {
		return nil
	}
	return all[0]
}

func boolCompare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
