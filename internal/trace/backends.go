package trace

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// candidates is where a request to the Service port could go if what holds it back were mended: the ready endpoints
// anywhere, else the Pods that the selector matches.
func (x *Index) candidates(svc *model.Service, port *model.ServicePort, is4 bool) []netip.AddrPort {
	var out []netip.AddrPort
	x.s.Backends(svc.Name).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		if !e.Ready || e.Addr.Is4() != is4 {
			return
		}
		for _, p := range sl.Ports {
			if p.Name == port.Name && p.Protocol == port.Protocol && p.Port != 0 {
				out = append(out, netip.AddrPortFrom(e.Addr, p.Port))
			}
		}
	})
	if len(out) > 0 {
		return flow.SortTargets(out)
	}
	for _, p := range x.selected(svc) {
		n, ok := targetPort(p, port)
		if !ok {
			continue
		}
		for _, a := range p.Addrs {
			if a.Is4() == is4 {
				out = append(out, netip.AddrPortFrom(a, n))
			}
		}
	}
	return flow.SortTargets(out)
}

// selected is the Pods that the Service's selector matches and that have not ended, by name.
func (x *Index) selected(svc *model.Service) []*model.Pod {
	var out []*model.Pod
	if len(svc.Selector) == 0 {
		return nil
	}
	for p := range x.s.Pods.Values() {
		if p.Name.Namespace == svc.Name.Namespace && !p.Terminal() && model.Selects(svc.Selector, p.Labels) {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(a, b *model.Pod) int { return strings.Compare(a.Name.Name, b.Name.Name) })
	return out
}

// targetPort is the Pod's port for the Service port; false when the Pod has no port of the name.
func targetPort(p *model.Pod, sp *model.ServicePort) (uint16, bool) {
	if sp.TargetPort.Name == "" {
		if sp.TargetPort.Number != 0 {
			return sp.TargetPort.Number, true
		}
		return sp.Port, true
	}
	for _, c := range p.Ports {
		if c.Name == sp.TargetPort.Name && c.Protocol == sp.Protocol {
			return c.Port, true
		}
	}
	return 0, false
}

// ingressBackend is the Service port that the Ingress rules choose for the request by the rules of networking.k8s.io/v1:
// the exact host before the wildcard before none, Exact before the longest Prefix, of the Ingresses that podway serves. It is
// only for naming the Service and for the steps after a broken one: the ingress hop's verdict decides.
func (x *Index) ingressBackend(r *flow.Request) (*model.Service, *model.ServicePort) {
	b, ns, ok := x.ingressRule(r)
	if !ok || b.Service == "" {
		return nil, nil
	}
	svc := x.s.Services.At(model.N(ns, b.Service))
	if svc == nil {
		return nil, nil
	}
	for i := range svc.Ports {
		p := &svc.Ports[i]
		if b.Port.Name != "" && p.Name == b.Port.Name || b.Port.Name == "" && p.Port == b.Port.Number {
			return svc, p
		}
	}
	return svc, nil
}

func (x *Index) ingressRule(r *flow.Request) (best model.IngressBackend, namespace string, ok bool) {
	rank := -1
	for _, ing := range model.Sorted(x.s.Ingresses, (*model.Ingress).Compare) {
		if (routes.Config{}).Standing(x.s, ing) != routes.Served {
			continue
		}
		for _, rule := range ing.Rules {
			host := hostRank(rule.Host, r.Host)
			if host < 0 {
				continue
			}
			for _, p := range rule.Paths {
				if path := pathRank(p, r.Path); path >= 0 && host+path > rank {
					rank, best, namespace, ok = host+path, p.Backend, ing.Name.Namespace, true
				}
			}
		}
		if ing.Default != nil && rank < 0 {
			rank, best, namespace, ok = 0, *ing.Default, ing.Name.Namespace, true
		}
	}
	return best, namespace, ok
}

const hostWeight = 1 << 20 // more than any path is long

// hostRank is -1 for no match, and higher for the better match.
func hostRank(rule, host string) int {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	rule = strings.ToLower(rule)
	switch {
	case rule == "":
		return 1
	case rule == host:
		return 2 * hostWeight
	case strings.HasPrefix(rule, "*."):
		if _, rest, found := strings.Cut(host, "."); found && rest == rule[2:] {
			return hostWeight
		}
	}
	return -1
}

// pathRank is -1 for no match, and higher for the better match.
func pathRank(p model.IngressPath, path string) int {
	if p.Type == model.PathExact {
		if p.Path == path {
			return hostWeight / 2
		}
		return -1
	}
	prefix := strings.TrimSuffix(p.Path, "/")
	if prefix == "" || path == prefix || strings.HasPrefix(path, prefix+"/") {
		return 2 * len(prefix)
	}
	return -1
}
