package routes

import (
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

// hostsOf are the keys of the hosts that an Ingress has something to say about, each once. One without rules speaks for
// every host.
func hostsOf(ing *model.Ingress) []string {
	var out []string
	for i := range ing.Rules {
		if k, ok := hostKey(ing.Rules[i].Host); ok {
			out = append(out, k)
		}
	}
	if len(ing.Rules) == 0 && ing.Default != nil {
		out = append(out, "")
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// buildHost makes the routes of one host from its Ingresses, oldest first.
func buildHost(key string, m *members) *hostRoutes {
	h, places := &hostRoutes{}, map[string]*place{}
	for _, ing := range m.ings {
		force, _ := forcedProtocol(ing)
		for i := range ing.Rules {
			rule := &ing.Rules[i]
			if k, ok := hostKey(rule.Host); !ok || k != key {
				continue
			}
			for j := range rule.Paths {
				h.add(places, routeOf(ing, rule, &rule.Paths[j], force))
			}
		}
		if ing.Default != nil {
			h.addDefault(ing, force)
		}
	}
	h.paths = pathsOf(places)
	slices.SortFunc(h.keys, compareKeys)
	h.keys = slices.Compact(h.keys)
	return h
}

func routeOf(ing *model.Ingress, rule *model.IngressRule, p *model.IngressPath, force Protocol) *Route {
	return &Route{
		Kind: Rule, Ingress: ing.Name, Host: rule.Host, Path: p.Path, Type: p.Type,
		Backend: keyOf(ing, p.Backend, force),
	}
}

func keyOf(ing *model.Ingress, b model.IngressBackend, force Protocol) BackendKey {
	if b.Resource != "" {
		return BackendKey{Service: model.N(ing.Name.Namespace, ""), Resource: b.Resource}
	}
	return BackendKey{Service: model.N(ing.Name.Namespace, b.Service), Port: b.Port, Force: force}
}

func (h *hostRoutes) addDefault(ing *model.Ingress, force Protocol) {
	r := &Route{Kind: IngressDefault, Ingress: ing.Name, Backend: keyOf(ing, *ing.Default, force)}
	switch {
	case len(ing.Rules) > 0:
		if h.fallback == nil {
			h.fallback = r
			h.keys = append(h.keys, r.Backend)
		}
	case h.catchAll == nil:
		h.catchAll = r
		h.keys = append(h.keys, r.Backend)
	default:
		h.losers = append(h.losers, Loss{Loser: r, Winner: h.catchAll})
	}
}

// add puts a route in unless an older one stands there. A path that can match nothing is left out; see specFindings.
func (h *hostRoutes) add(places map[string]*place, r *Route) {
	path, ok := rulePath(r.Path, r.Type)
	if !ok {
		return
	}
	if r.Type != model.PathExact {
		path = strings.TrimSuffix(path, "/") // a final slash means nothing in a prefix
	}
	at := places[path]
	if at == nil {
		at = &place{path: path}
		places[path] = at
	}
	slot := &at.prefix
	if r.Type == model.PathExact {
		slot = &at.exact
	}
	if *slot != nil {
		h.losers = append(h.losers, Loss{Loser: r, Winner: *slot})
		return
	}
	*slot = r
	h.keys = append(h.keys, r.Backend)
}

// rulePath is the canonical form of a rule's path. An empty one of type Prefix or ImplementationSpecific is "/".
func rulePath(path string, typ model.PathType) (string, bool) {
	if path == "" && typ != model.PathExact {
		return "/", true
	}
	out, _, err := Canonical(path)
	return out, err == nil
}

func compareKeys(a, b BackendKey) int {
	if c := a.Service.Compare(b.Service); c != 0 {
		return c
	}
	if c := strings.Compare(a.Port.Name, b.Port.Name); c != 0 {
		return c
	}
	if c := int(a.Port.Number) - int(b.Port.Number); c != 0 {
		return c
	}
	if c := strings.Compare(string(a.Force), string(b.Force)); c != 0 {
		return c
	}
	return strings.Compare(a.Resource, b.Resource)
}
