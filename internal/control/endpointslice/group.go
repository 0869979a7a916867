package endpointslice

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/podway/podway/internal/model"
)

const (
	ipv4 = "IPv4"
	ipv6 = "IPv6"
)

// group is the endpoints that share ports and so may stand in one slice.
type group struct {
	ports     []model.EndpointPort
	endpoints []model.Endpoint
}

// grouper turns the Pods of one Service into groups.
type grouper struct {
	svc   *model.Service
	nodes Nodes
	close string               // trafficDistribution, unless hints go by proportion
	named bool                 // a target port has a name: it is looked up in each Pod
	fixed []model.EndpointPort // the ports when none has
}

func newGrouper(svc *model.Service, nodes Nodes) *grouper {
	g := &grouper{svc: svc, nodes: nodes, close: svc.TrafficDistribution}
	if proportional(svc) {
		g.close = ""
	}
	for _, p := range svc.Ports {
		g.named = g.named || p.TargetPort.Name != ""
	}
	if !g.named {
		g.fixed = portsOf(svc, nil)
	}
	return g
}

// groups is by portsKey. Pods that have ended, have no address of the family, or stand on a Node that is gone are left
// out; the last only while there are Nodes at all, for an empty list is a view that failed, not a cluster without
// machines.
func (g *grouper) groups(family string, pods []*model.Pod) map[string]*group {
	out := map[string]*group{}
	only := portsKey(g.fixed)
	for _, p := range pods {
		node := g.nodes.At(p.Node)
		if p.Terminal() || node == nil && g.nodes.Len() > 0 && !g.svc.PublishNotReady {
			continue
		}
		addr, ok := addrOf(p, family)
		if !ok {
			continue
		}
		key, ports := only, g.fixed
		if g.named {
			ports = portsOf(g.svc, p)
			key = portsKey(ports)
		}
		gr := out[key]
		if gr == nil {
			gr = &group{ports: ports, endpoints: make([]model.Endpoint, 0, len(pods))}
			out[key] = gr
		}
		e := model.Endpoint{Addr: addr}
		g.fill(&e, p, node)
		gr.endpoints = append(gr.endpoints, e)
	}
	return out
}

// fill applies the rules of conditions (KEP-1672), host names and hints (KEP-3015; only ready endpoints get hints, since
// only they count when a proxy looks whether hints are usable).
func (g *grouper) fill(e *model.Endpoint, p *model.Pod, node *model.Node) {
	e.Serving, e.Terminating = p.Ready, p.Deleting
	e.Ready = g.svc.PublishNotReady || p.Ready && !p.Deleting
	e.Node, e.Pod, e.PodUID = p.Node, p.Name, p.UID
	if node != nil {
		e.Zone = node.Zone
	}
	if p.Hostname != "" && p.Subdomain == g.svc.Name.Name {
		e.Hostname = p.Hostname
	}
	if !e.Ready {
		return
	}
	switch g.close {
	case "PreferSameNode":
		if e.Node != "" {
			e.ForNodes = []string{e.Node}
		}
		fallthrough
	case "PreferClose", "PreferSameZone":
		if e.Zone != "" {
			e.ForZones = []string{e.Zone}
		}
	}
}

// proportional reports whether the Service asks for hints by the CPU of zones (KEP-2433): deprecated, still honoured, and
// stronger than trafficDistribution.
func proportional(svc *model.Service) bool {
	mode, ok := svc.Annotations[annotationHints]
	if !ok {
		mode = svc.Annotations[annotationTopology]
	}
	return mode == "Auto" || mode == "auto"
}

// portsOf resolves the Service's target ports; those that the Pod has no name for are left out. p may be nil when no
// target port has a name.
func portsOf(svc *model.Service, p *model.Pod) []model.EndpointPort {
	out := make([]model.EndpointPort, 0, len(svc.Ports))
	for _, sp := range svc.Ports {
		n := sp.TargetPort.Number
		if sp.TargetPort.Name != "" {
			n = containerPort(p, sp.TargetPort.Name, sp.Protocol)
		}
		if n != 0 {
			out = append(out, model.EndpointPort{Name: sp.Name, Protocol: sp.Protocol, Port: n, AppProtocol: sp.AppProtocol})
		}
	}
	return out
}

func containerPort(p *model.Pod, name string, proto model.Protocol) uint16 {
	for _, c := range p.Ports {
		if c.Name == name && c.Protocol == proto {
			return c.Port
		}
	}
	return 0
}

func addrOf(p *model.Pod, family string) (none netip.Addr, ok bool) {
	for _, a := range p.Addrs {
		if a.Is4() == (family == ipv4) {
			return a, true
		}
	}
	return none, false
}

// portsKey is the same for equal sets of ports, whatever their order.
func portsKey(ports []model.EndpointPort) string {
	switch len(ports) {
	case 0:
		return ""
	case 1:
		return portKey(ports[0])
	}
	keys := make([]string, len(ports))
	for i, p := range ports {
		keys[i] = portKey(p)
	}
	slices.Sort(keys)
	return strings.Join(keys, "\n")
}

func portKey(p model.EndpointPort) string {
	return p.Name + "/" + string(p.Protocol) + "/" + strconv.Itoa(int(p.Port)) + "/" + p.AppProtocol
}
