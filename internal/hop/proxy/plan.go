// Package proxy is the hop from a Service's address to one of its endpoints. It owns the choice of endpoints (Decide) and
// the order of work: plan, rules, then stale connections. How the choice is programmed is a Backend's matter (nft and
// others, in folders below). It owns no address, no route and no way to a Pod.
package proxy

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Plan is all that one node's proxy has to do. It is immutable: a changed Service is a new *Service in a new Plan, and
// one that did not change is the same pointer.
type Plan struct {
	Node     Node
	Services model.Map[model.Name, *Service]
	// ServiceCIDRs are the ranges of ClusterIPs, when they are known: unused addresses in them are dropped.
	ServiceCIDRs []netip.Prefix
	Settings     Settings
}

// Service is what is to be done for one Service: one Port for each of its ports and address families.
type Service struct {
	Name  model.Name
	Ports []*Port
	// HealthPort is the healthCheckNodePort, 0 = none; Ready counts the ready endpoints on this node that it tells of.
	HealthPort uint16
	Ready      int
	// Shadowed are frontends that another Service had first; they are left out of Ports.
	Shadowed []Shadow

	svc      *model.Service
	backends *model.Backends
}

// Shadow is a frontend that belongs to another Service.
type Shadow struct {
	Frontend Frontend
	Owner    model.Name
}

// Port is one port of a Service in one address family.
type Port struct {
	Service   model.Name
	Name      string
	Proto     flow.Proto
	ClusterIP netip.AddrPort
	External  []Frontend

	InternalLocal bool          // internalTrafficPolicy: Local
	ExternalLocal bool          // externalTrafficPolicy: Local
	Affinity      time.Duration // how long a client keeps its endpoint; 0 = not at all

	// Cluster are the endpoints for traffic that may go to any node, Local those on this node, each ordered. A list that
	// no policy of the port uses is empty.
	Cluster, Local []netip.AddrPort
	// Any says that there is an endpoint somewhere, though Local may be empty: then traffic is dropped, not refused.
	Any bool
	// Serving are all endpoints that may go on serving connections that they already have.
	Serving []netip.AddrPort
	// Maglev asks for a choice that depends on the client alone, the same on every node and nearly the same when endpoints
	// come and go, instead of a random one (annotation podway.io/balance: maglev).
	Maglev bool
	// Hairpin are the addresses of endpoints on this node: when one of them is chosen for its own request, the answer
	// must come back through the node.
	Hairpin []netip.Addr
}

// FrontendKind is where an address of a Service comes from.
type FrontendKind uint8

// The kinds, in the order of precedence when two Services claim the same address and port.
const (
	ClusterIP FrontendKind = iota
	LoadBalancer
	ExternalIP
	NodePort
)

// String is the field's name as users know it.
func (k FrontendKind) String() string {
	return [...]string{"clusterIP", "load balancer address", "externalIP", "nodePort"}[k]
}

// Frontend is an address and port, other than the ClusterIP, at which a Port answers.
type Frontend struct {
	Kind FrontendKind
	Addr netip.AddrPort
	// Guarded frontends answer to Sources only (loadBalancerSourceRanges).
	Guarded bool
	Sources []netip.Prefix
}

// Is4 reports the Port's address family.
func (p *Port) Is4() bool { return p.ClusterIP.Addr().Is4() }

// External policies need the Cluster endpoints too: clients in the cluster are not bound by externalTrafficPolicy.
func usesCluster(internalLocal bool, external int) bool { return !internalLocal || external > 0 }

// proxied reports whether the Service is this proxy's: it has a ClusterIP, and the label
// service.kubernetes.io/service-proxy-name names this proxy.
func (s *Settings) proxied(svc *model.Service) bool {
	return svc.HasClusterIP() && svc.ProxyName == s.ProxyName
}

func protoOf(p model.Protocol) flow.Proto {
	switch p {
	case model.UDP:
		return flow.UDP
	case model.SCTP:
		return flow.SCTP
	}
	return flow.TCP
}

// frontends are the addresses of the family, beside the ClusterIP, at which the port answers.
func frontends(svc *model.Service, sp *model.ServicePort, is4 bool, n *Node, set *Settings) []Frontend {
	var out []Frontend
	for _, a := range svc.ExternalIPs {
		if a.Is4() == is4 && !set.NoExternalIPs {
			out = append(out, Frontend{Kind: ExternalIP, Addr: netip.AddrPortFrom(a, sp.Port)})
		}
	}
	if svc.Type == model.LoadBalancer {
		for _, lb := range svc.LoadBalancerIPs {
			if lb.Addr.Is4() == is4 && !lb.Proxy {
				f := Frontend{Kind: LoadBalancer, Addr: netip.AddrPortFrom(lb.Addr, sp.Port)}
				f.Guarded, f.Sources = guard(svc.SourceRanges, lb.Addr, n)
				out = append(out, f)
			}
		}
	}
	if sp.NodePort == 0 || svc.Type != model.NodePort && svc.Type != model.LoadBalancer {
		return out
	}
	for _, a := range n.Addrs {
		if a.Is4() == is4 {
			out = append(out, Frontend{Kind: NodePort, Addr: netip.AddrPortFrom(a, sp.NodePort)})
		}
	}
	return out
}

// guard turns loadBalancerSourceRanges into the sources that one address answers to. A node in the ranges may have the
// address on a device of its own and then sends from it, so the address itself is let in with the node.
func guard(ranges []netip.Prefix, addr netip.Addr, n *Node) (bool, []netip.Prefix) {
	var out []netip.Prefix
	for _, r := range ranges {
		if r.Addr().Is4() != addr.Is4() {
			continue
		}
		out = append(out, r.Masked())
		if a := n.primary(addr.Is4()); a.IsValid() && r.Contains(a) {
			out = append(out, netip.PrefixFrom(addr, addr.BitLen()))
		}
	}
	return len(ranges) > 0, widest(out)
}

// widest sorts prefixes and leaves out those within others.
func widest(ps []netip.Prefix) []netip.Prefix {
	slices.SortFunc(ps, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	out := ps[:0]
	for _, p := range ps {
		if n := len(out); n == 0 || !out[n-1].Contains(p.Addr()) {
			out = append(out, p)
		}
	}
	return out
}

// SameNode reports whether two plans are for a node of which the same is known, by the same settings, so that only their
// Services can differ.
func (p *Plan) SameNode(o *Plan) bool {
	return p.Node.equal(&o.Node) && p.Settings.Equal(&o.Settings) && slices.Equal(p.ServiceCIDRs, o.ServiceCIDRs)
}
