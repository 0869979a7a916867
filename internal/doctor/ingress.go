package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
)

// ingress asks for each host and path from outside, unless the Ingress is another controller's.
func (e *examiner) ingress(ing *model.Ingress) {
	if (routes.Config{}).Standing(e.s, ing) == routes.Foreign {
		e.foreign(ing)
		return
	}
	e.r.Ingresses++
	secure := map[string]bool{}
	for _, t := range ing.TLS {
		for _, h := range t.Hosts {
			secure[h] = true
		}
	}
	for _, rule := range ing.Rules {
		host := rule.Host
		if host == "" {
			continue // reached by any name: its backends are checked as Services
		}
		scheme := "http"
		if secure[host] {
			scheme = "https"
		}
		host = strings.Replace(host, "*", "any", 1)
		for _, p := range rule.Paths {
			path := p.Path
			if !strings.HasPrefix(path, "/") {
				path = "/"
			}
			e.walk(fmt.Sprintf("Ingress %s %s%s", ing.Name, rule.Host, path),
				trace.Question{From: flow.FromOutside, Proto: flow.TCP, Namespace: ing.Name.Namespace, Target: scheme + "://" + host + path})
		}
	}
}

// routes adds what the ingress proxy itself says of the Ingresses: what it ignores, who loses, which Secrets it lacks. A backend
// that does not answer has been found on the way to it.
func (e *examiner) routes() {
	hidden := slices.ContainsFunc(e.o.Missing, func(m string) bool { return strings.HasPrefix(m, "TLS Secrets") })
	all := routes.Findings(routes.Config{}, e.s)
	for _, n := range slices.SortedFunc(maps.Keys(all), model.Name.Compare) {
		for _, f := range all[n] {
			switch {
			case f.Code == flow.IngressNoBackend, f.Code == flow.IngressNoClass && e.known(f.Code, f.Object):
			case f.Code == flow.IngressBadSecret && hidden: // not seen is not the same as not there
			default:
				e.hit(f, "")
			}
		}
	}
}

// pools looks for AddressPools whose addresses cannot work.
func (e *examiner) pools() {
	for _, p := range model.Sorted(e.s.Pools, func(a, b *model.Pool) int { return strings.Compare(a.Name, b.Name) }) {
		if why := p.Conflict(e.s, e.o.Pods, e.o.Services); why != "" {
			e.hit(flow.Finding{Code: flow.PoolUnusable, Severity: flow.Warning, Object: "AddressPool " + p.Name, Cause: why,
				Fix: "kubectl edit addresspool " + p.Name + ": change spec.addresses"}, "")
		}
	}
}

// foreign says whose an Ingress is that podway does not serve.
func (e *examiner) foreign(ing *model.Ingress) {
	why := "its class " + ing.Class + " is another controller's"
	switch c := e.s.Classes.At(ing.Class); {
	case ing.Class == "":
		why = "it names no class, and the default one is another controller's"
	case c != nil:
		why = fmt.Sprintf("its class %s is that of controller %s", ing.Class, c.Controller)
	}
	e.notChecked(fmt.Sprintf("Ingress %s: %s", ing.Name, why))
}
