package announce

import (
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

// Election is who announces one address, and why nobody else.
type Election struct {
	Addr     netip.Addr
	Services []model.Name // those that have it, by name
	Owner    string       // node, "" = nobody
	Lacks    []Lack       // of the nodes that may not, by name
	Foreign  string       // why the address is not podway's to announce, "" = it is
}

// Lack is what keeps a node from announcing an address.
type Lack struct{ Node, Why string }

// electorate is what the elections of one snapshot have in common.
type electorate struct {
	s     *model.Snapshot
	nodes []*model.Node // by name
	fit   []voter       // those that may announce at all
	own   map[netip.Addr]string
	byIP  map[netip.Addr][]*model.Service
}

type voter struct {
	name string
	hash uint64
}

func newElectorate(s *model.Snapshot) *electorate {
	e := &electorate{s: s, own: map[netip.Addr]string{}, byIP: map[netip.Addr][]*model.Service{}}
	e.nodes = model.Sorted(s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) })
	for _, n := range e.nodes {
		for _, a := range n.Addrs {
			e.own[a] = n.Name
		}
		if unfit(n) == "" {
			e.fit = append(e.fit, voter{n.Name, hashOf(n.Name)})
		}
	}
	for svc := range s.Services.Values() {
		if svc.Type == model.LoadBalancer {
			for _, ip := range svc.LoadBalancerIPs {
				e.byIP[ip.Addr] = append(e.byIP[ip.Addr], svc)
			}
		}
	}
	for _, l := range e.byIP {
		slices.SortFunc(l, func(a, b *model.Service) int { return a.Name.Compare(b.Name) })
	}
	return e
}

// unfit says why a node may announce nothing.
func unfit(n *model.Node) string {
	switch {
	case n.Deleting:
		return "is being deleted"
	case !n.Ready:
		return "is not ready"
	case n.ExcludeLB:
		return "has the label node.kubernetes.io/exclude-from-external-load-balancers"
	}
	return ""
}

// Elect returns an Election for every LoadBalancer address, by address. Every node that has the same snapshot gets the
// same: the owner is the candidate with the highest rendezvous weight, so that a node that goes moves only its own
// addresses, and one that comes takes its share from all.
func Elect(s *model.Snapshot) []Election { return newElectorate(s).all() }

func (e *electorate) all() []Election {
	out := make([]Election, 0, len(e.byIP))
	for _, a := range slices.SortedFunc(maps.Keys(e.byIP), netip.Addr.Compare) {
		out = append(out, e.elect(a))
	}
	return out
}

func (e *electorate) elect(a netip.Addr) Election {
	out := Election{Addr: a}
	var mine []*model.Service
	for _, svc := range e.byIP[a] {
		out.Services = append(out.Services, svc.Name)
		if ours(svc) {
			mine = append(mine, svc)
		}
	}
	if out.Foreign = e.foreign(a, mine); out.Foreign != "" {
		return out
	}
	allowed, why := e.local(mine)
	hash, best := hashOf(a.String()), uint64(0)
	for _, v := range e.fit {
		if allowed != nil && !allowed[v.name] {
			continue
		}
		if w := weight(v.hash, hash); out.Owner == "" || w > best {
			out.Owner, best = v.name, w
		}
	}
	for _, n := range e.nodes {
		if w := unfit(n); w != "" {
			out.Lacks = append(out.Lacks, Lack{n.Name, w})
		} else if allowed != nil && !allowed[n.Name] {
			out.Lacks = append(out.Lacks, Lack{n.Name, why})
		}
	}
	return out
}

func ours(svc *model.Service) bool {
	return svc.LoadBalancerClass == "" || svc.LoadBalancerClass == model.LoadBalancerClass
}

// foreign says why the address is somebody else's to announce.
func (e *electorate) foreign(a netip.Addr, mine []*model.Service) string {
	if n, ok := e.own[a]; ok {
		return "it is an address of node " + n
	}
	if len(mine) == 0 {
		return "its Services have another loadBalancerClass"
	}
	for _, svc := range mine {
		if svc.LoadBalancerClass == model.LoadBalancerClass {
			return ""
		}
	}
	if poolOf(e.s, a) == nil {
		return "it is in no AddressPool"
	}
	return ""
}

func poolOf(s *model.Snapshot, a netip.Addr) (found *model.Pool) {
	for p := range s.Pools.Values() {
		for _, r := range p.Ranges {
			if r.Contains(a) && (found == nil || p.Name < found.Name) {
				found = p
			}
		}
	}
	return found
}

// local returns the nodes that have a Pod for each Service with externalTrafficPolicy Local; nil when there is none. A
// Service whose last Pods are on their way out is still served where they are (KEP-1669).
func (e *electorate) local(mine []*model.Service) (allowed map[string]bool, why string) {
	for _, svc := range mine {
		if !svc.ExternalPolicyLocal {
			continue
		}
		here := e.nodesOf(svc)
		why = "has no ready Pod of Service " + svc.Name.String() + ", and externalTrafficPolicy is Local"
		if allowed == nil {
			allowed = here
			continue
		}
		maps.DeleteFunc(allowed, func(n string, _ bool) bool { return !here[n] })
	}
	return allowed, why
}

func (e *electorate) nodesOf(svc *model.Service) map[string]bool {
	ready, serving := map[string]bool{}, map[string]bool{}
	e.s.Backends(svc.Name).Each(func(_ *model.EndpointSlice, x *model.Endpoint) {
		if x.Ready {
			ready[x.Node] = true
		} else if x.Serving && x.Terminating {
			serving[x.Node] = true
		}
	})
	if len(ready) > 0 {
		return ready
	}
	return serving
}

// hashOf is FNV-1a. It and weight are part of the protocol: nodes of different versions must agree.
func hashOf(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return h.Sum64()
}

// weight mixes the hashes of a node and an address (the finalizer of MurmurHash3).
func weight(node, addr uint64) uint64 {
	x := node ^ addr
	x = (x ^ x>>33) * 0xff51afd7ed558ccd
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}
