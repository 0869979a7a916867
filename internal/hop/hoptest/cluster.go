package hoptest

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/model"
)

// The cluster of ServiceCases: node-a is the node under test, node-b another one in another zone.
const (
	NodeA, NodeB = "node-a", "node-b"
	ZoneA, ZoneB = "zone-a", "zone-b"
)

// Cluster builds snapshots.
type Cluster struct{ b *model.Builder }

// NewCluster returns a cluster with two nodes: 192.168.1.1 with Pods in 10.244.1.0/24, 192.168.1.2 with 10.244.2.0/24, and
// fd00:1::1 and fd00:1::2 with fd00:10:1::/64 and fd00:10:2::/64.
func NewCluster() *Cluster {
	c := &Cluster{b: model.NewBuilder(nil)}
	c.Put(Node(NodeA, ZoneA, 1), Node(NodeB, ZoneB, 2))
	return c
}

// Node makes node number n of the cluster.
func Node(name, zone string, n byte) *model.Node {
	return &model.Node{
		Name: name, UID: name, Zone: zone, Ready: true,
		Addrs:    []netip.Addr{netip.AddrFrom4([4]byte{192, 168, 1, n}), netip.MustParseAddr(fmt.Sprintf("fd00:1::%d", n))},
		PodCIDRs: []netip.Prefix{netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n)), netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/64", n))},
	}
}

// Put adds or replaces objects.
func (c *Cluster) Put(objs ...any) *Cluster {
	for _, o := range objs {
		c.b.Put(o)
	}
	return c
}

// Snapshot returns what was built so far.
func (c *Cluster) Snapshot() *model.Snapshot { return c.b.Snapshot(time.Unix(1700000000, 0)) }

// Service returns a Service shop/name with ClusterIP 10.96.0.n and TCP port 80 named http; edit changes it.
func Service(name string, n byte, edit ...func(*model.Service)) *model.Service {
	s := &model.Service{
		Name: model.N("shop", name), UID: name, Type: model.ClusterIP, IPFamilies: []string{"IPv4"},
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, n})}, Selector: map[string]string{"app": name},
		Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80, TargetPort: model.PortRef{Number: 8080}}},
	}
	for _, f := range edit {
		f(s)
	}
	return s
}

// Slice returns an IPv4 slice of shop/service with port http 8080.
func Slice(service string, eps ...model.Endpoint) *model.EndpointSlice {
	return &model.EndpointSlice{
		Name: model.N("shop", service+"-1"), Service: model.N("shop", service), AddressType: "IPv4",
		Ports: []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}}, Endpoints: eps,
	}
}

// Ready returns a ready endpoint; its node follows from its address.
func Ready(addr string) model.Endpoint {
	e := model.Endpoint{Addr: netip.MustParseAddr(addr), Ready: true, Serving: true}
	for n, zone := range map[string]string{NodeA: ZoneA, NodeB: ZoneB} {
		number := byte(1)
		if n == NodeB {
			number = 2
		}
		node := Node(n, zone, number)
		for _, p := range node.PodCIDRs {
			if p.Contains(e.Addr) {
				e.Node, e.Zone = n, zone
			}
		}
		for _, a := range node.Addrs {
			if a == e.Addr {
				e.Node, e.Zone = n, zone
			}
		}
	}
	return e
}

// Unready returns an endpoint that is not ready.
func Unready(addr string) model.Endpoint {
	e := Ready(addr)
	e.Ready, e.Serving = false, false
	return e
}

// Draining returns an endpoint that terminates and still serves.
func Draining(addr string) model.Endpoint {
	e := Ready(addr)
	e.Ready, e.Terminating = false, true
	return e
}

// HintNodes and HintZones return the endpoint with hints.
func HintNodes(e model.Endpoint, nodes ...string) model.Endpoint {
	e.ForNodes = nodes
	return e
}

// HintZones returns the endpoint with hints for zones.
func HintZones(e model.Endpoint, zones ...string) model.Endpoint {
	e.ForZones = zones
	return e
}
