package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// explainIngress says why the ingress proxy answers itself instead of passing the request on.
func (x *Index) explainIngress(st *Step) *flow.Finding {
	r := st.Flow.HTTP
	if r == nil {
		return nil
	}
	for _, f := range st.Verdict.Findings { // the router knows which Ingresses it serves
		if f.Severity == flow.Error && f.Code != flow.IngressNoBackend && f.Code != flow.IngressNoRule {
			return &f
		}
	}
	b, ns, ok := x.ingressRule(r)
	if !ok || st.Verdict.Status == 404 {
		return x.explainNoRule(r)
	}
	if b.Service == "" {
		f := finding(flow.IngressUnsupported, "Ingress in namespace "+ns, "the backend is "+b.Resource+", and only Services are served", "set backend.service")
		return &f
	}
	return x.explainIngressBackend(r, b, ns)
}

func (x *Index) explainIngressBackend(r *flow.Request, b model.IngressBackend, ns string) *flow.Finding {
	where := fmt.Sprintf("the Ingress backend of %s%s", r.Host, r.Path)
	svc, port := x.ingressBackend(r)
	if svc == nil {
		f := finding(flow.IngressNoService, "Ingress in namespace "+ns, fmt.Sprintf("%s is Service %s, which namespace %s does not have", where, b.Service, ns), "kubectl get services -n "+ns)
		w := &walker{Index: x}
		if to := closest(b.Service, w.servicesIn(ns)); to != "" {
			f.Fix = diff("backend.service", "name: "+b.Service, "name: "+to)
		}
		return &f
	}
	if port == nil {
		var has []string
		for _, p := range svc.Ports {
			has = append(has, strings.TrimSpace(fmt.Sprintf("%d %s", p.Port, p.Name)))
		}
		asked := b.Port.Name
		if asked == "" {
			asked = fmt.Sprint(b.Port.Number)
		}
		f := finding(flow.IngressNoPort, serviceObject(svc), fmt.Sprintf("%s is port %s of Service %s, which has only: %s", where, asked, svc.Name, strings.Join(has, ", ")), "change backend.service.port")
		if len(svc.Ports) == 1 {
			f.Fix = diff("backend.service.port", asked, fmt.Sprint(svc.Ports[0].Port))
		}
		return &f
	}
	if f := x.explainBackends(svc, port); f != nil && len(x.ready(svc, port, true))+len(x.ready(svc, port, false)) == 0 {
		f.Evidence = append(f.Evidence, "so the ingress answers 503 for "+r.Host+r.Path)
		return f
	}
	return nil
}

// explainNoRule says which rule comes nearest, or which Ingress has the rule and is served by nobody.
func (x *Index) explainNoRule(r *flow.Request) *flow.Finding {
	url := r.Host + r.Path
	var hosts, paths []string
	for _, ing := range model.Sorted(x.s.Ingresses, (*model.Ingress).Compare) {
		for _, rule := range ing.Rules {
			if rule.Host != "" {
				hosts = append(hosts, rule.Host)
			}
			if hostRank(rule.Host, r.Host) < 0 {
				continue
			}
			for _, p := range rule.Paths {
				paths = append(paths, fmt.Sprintf("%s %s (Ingress %s)", p.Type, p.Path, ing.Name))
				if pathRank(p, r.Path) >= 0 {
					return x.noClass(ing)
				}
			}
		}
	}
	f := finding(flow.IngressNoRule, "host "+r.Host, "no Ingress has a rule for host "+r.Host, "add a rule for host "+r.Host+" to an Ingress")
	if len(paths) > 0 {
		f.Cause = fmt.Sprintf("no rule of host %s matches path %s", r.Host, r.Path)
		f.Fix = "add a path to the rule, or use pathType: Prefix"
		f.Evidence = append(f.Evidence, "declared paths: "+strings.Join(paths, ", "))
		return &f
	}
	slices.Sort(hosts)
	hosts = slices.Compact(hosts)
	if to := closest(r.Host, hosts); to != "" {
		f.Cause += "; " + to + " is spelled almost like it"
		f.Fix = "ask for " + strings.Replace(url, r.Host, to, 1) + ", or change the rule's host"
	}
	if len(hosts) > 0 {
		f.Evidence = append(f.Evidence, "declared hosts: "+strings.Join(hosts[:min(len(hosts), 10)], ", "))
	}
	return &f
}

// noClass is for an Ingress that has the rule and that podway's ingress does not serve.
func (x *Index) noClass(ing *model.Ingress) *flow.Finding {
	object := "Ingress " + ing.Name.String()
	f := finding(flow.IngressNoClass, object, "", "")
	var ours []string
	for c := range x.s.Classes.Values() {
		ours = append(ours, c.Name+" ("+c.Controller+")")
	}
	slices.Sort(ours)
	class := x.s.Classes.At(ing.Class)
	switch {
	case ing.Class == "":
		f.Cause = object + " has the rule, but names no class, and no class is the default"
	case class == nil:
		f.Cause = fmt.Sprintf("%s has the rule, but its class %q does not exist", object, ing.Class)
	default:
		f.Cause = fmt.Sprintf("%s has the rule, but its class %q is that of controller %s", object, ing.Class, class.Controller)
	}
	f.Fix = object + " spec:\n+ ingressClassName: " + routes.DefaultClass
	for _, own := range routes.Findings(routes.Config{}, x.s)[ing.Name] { // what to do is said in one place
		if own.Code == flow.IngressNoClass {
			f.Fix = own.Fix
		}
	}
	f.Evidence = append(f.Evidence, "declared classes: "+strings.Join(ours, ", "))
	return &f
}
