package main

import (
	"fmt"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/model"
)

// nodeName is the node whose rules are measured; one endpoint in nodes is on it.
const (
	nodeName = "node-0"
	nodes    = 100
)

// cluster makes snapshots of Services with endpoints spread over the nodes.
type cluster struct {
	b         *model.Builder
	services  int
	endpoints int
}

func newCluster(services, endpoints int) *cluster {
	c := &cluster{b: model.NewBuilder(nil), services: services, endpoints: endpoints}
	for i := range nodes {
		c.b.Put(&model.Node{Name: fmt.Sprintf("node-%d", i), Ready: true,
			Addrs:    []netip.Addr{netip.AddrFrom4([4]byte{192, 168, 0, byte(i + 1)})},
			PodCIDRs: []netip.Prefix{netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, byte(i), 0}), 24)}})
	}
	for i := range services {
		c.b.Put(c.service(i))
		c.b.Put(c.slice(i, 0))
	}
	return c
}

func (c *cluster) service(i int) *model.Service {
	return &model.Service{Name: name(i), Type: model.ClusterIP,
		ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96 + byte(i>>16), byte(i >> 8), byte(i)})},
		Selector:   map[string]string{"app": name(i).Name},
		Ports:      []model.ServicePort{{Protocol: model.TCP, Port: 80, TargetPort: model.PortRef{Number: 8080}}}}
}

func name(i int) model.Name { return model.N("shop", fmt.Sprintf("svc-%d", i)) }

// slice is the endpoints of Service i; round replaces one of them.
func (c *cluster) slice(i, round int) *model.EndpointSlice {
	s := &model.EndpointSlice{Name: model.N("shop", name(i).Name+"-x"), Service: name(i), AddressType: "IPv4",
		Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}}}
	for e := range c.endpoints {
		n := i*c.endpoints + e
		if e == c.endpoints/2 {
			n += round * 7919
		}
		s.Endpoints = append(s.Endpoints, model.Endpoint{Ready: true, Serving: true, Node: fmt.Sprintf("node-%d", n%nodes),
			Addr: netip.AddrFrom4([4]byte{10, 128 + byte(n>>16)&127, byte(n >> 8), byte(n)})})
	}
	return s
}

func (c *cluster) snapshot() *model.Snapshot { return c.b.Snapshot(time.Now()) }

// change replaces an endpoint in one Service, and every fourth time takes one away.
func (c *cluster) change(round int) *model.Snapshot {
	c.b.Put(c.changed(round))
	return c.snapshot()
}

// changed is the slice that a change writes.
func (c *cluster) changed(round int) *model.EndpointSlice {
	s := c.slice(round*131%c.services, round+1)
	if round%4 == 3 {
		s.Endpoints = s.Endpoints[:len(s.Endpoints)-1]
	}
	return s
}

// comeOrGo makes one more Service with endpoints, and takes it away the next time.
func (c *cluster) comeOrGo(round int) *model.Snapshot {
	n := name(c.services)
	if round%2 == 1 {
		c.b.Delete(&model.Service{Name: n})
		return c.snapshot()
	}
	c.b.Put(c.service(c.services))
	c.b.Put(c.slice(c.services, 0))
	return c.snapshot()
}
