package dns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/flow/spelling"
	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/model"
)

// explainer says in words why a question has its answer.
type explainer struct {
	view  *answers.View
	s     *model.Snapshot // nil before the first view
	q     flow.Question
	typ   uint16
	tried []try
}

// finding fills in what the table of codes knows.
func finding(c flow.Code, object, cause string, evidence ...string) flow.Finding {
	about, _ := flow.CauseOf(c)
	return flow.Finding{Code: c, Severity: flow.Error, Object: object, Cause: cause, Evidence: evidence, Fix: about.Fix}
}

// explain fills in Why, Findings, and on NXDOMAIN the name that was probably meant.
func (x explainer) explain(v *flow.Verdict, best try) {
	svc := x.service(best.name)
	switch {
	case best.found.Outside != "":
		v.Why = fmt.Sprintf("Service %s is an ExternalName: the upstream servers are asked for %s", svc.Name, best.found.Outside)
	case best.positive() && svc != nil:
		v.Why = x.kind(svc)
	case best.positive() && !config.Under(strings.ToLower(best.name), x.view.Domain()) && !config.Under(strings.ToLower(best.name), "arpa."):
		v.Why = "the configuration of the DNS server answers it"
	case best.positive():
		v.Why = "a name of the cluster's domain"
	case best.noData():
		v.Why = fmt.Sprintf("%s exists and has no %s record", best.name, dns.TypeToString[x.typ])
	case v.Rcode == "SERVFAIL" && !x.view.Synced():
		v.Why = "the DNS server has not seen the whole cluster yet"
		v.Findings = []flow.Finding{finding(flow.DNSNotSynced, "name "+best.name, "The DNS server has not seen the whole cluster yet.")}
	case v.Rcode == "SERVFAIL":
		v.Why = "the CNAMEs of ExternalName Services lead in a circle"
	default:
		x.missing(v)
	}
}

// kind says what sort of Service answers.
func (x explainer) kind(svc *model.Service) string {
	switch {
	case svc.Type == model.ExternalName:
		return fmt.Sprintf("Service %s is an ExternalName for %s", svc.Name, svc.ExternalName)
	case svc.Headless:
		return fmt.Sprintf("Service %s is headless: its ready endpoints", svc.Name)
	}
	return fmt.Sprintf("Service %s", svc.Name)
}

// service is the Service in whose names an absolute name is, or nil.
func (x explainer) service(name string) *model.Service {
	if n, ok := x.objectName(name); ok && x.s != nil {
		return x.s.Services.At(n)
	}
	return nil
}

// nameOf is the Service's own name.
func (x explainer) nameOf(n model.Name) string {
	return n.Name + "." + n.Namespace + ".svc." + x.view.Domain()
}

// objectName reads namespace and Service out of an absolute name.
func (x explainer) objectName(name string) (model.Name, bool) {
	rest, ok := strings.CutSuffix(strings.ToLower(dns.Fqdn(name)), ".svc."+x.view.Domain())
	labels := strings.Split(rest, ".")
	if !ok || len(labels) < 2 {
		return model.Name{}, false
	}
	return model.N(labels[len(labels)-1], labels[len(labels)-2]), true
}

// meant is the name of the cluster that a client means who asks for something that only looks like a name of the world:
// "cart", "cart.shop", "cart.shop.svc". It is "" for a name of the world.
func (x explainer) meant() string {
	if strings.HasSuffix(x.q.Name, ".") || x.s == nil {
		return ""
	}
	labels := strings.Split(strings.ToLower(x.q.Name), ".")
	switch n := len(labels); {
	case n == 1, labels[n-1] == "svc", n == 2 && x.nearNamespace(labels[1], labels[0]):
		return x.likely()
	}
	return ""
}

// nearNamespace reports whether ns is a namespace, or one letter away from one that has the Service.
func (x explainer) nearNamespace(ns, service string) bool {
	for n := range x.s.Services.All() {
		if n.Namespace == ns || n.Name == service && spelling.Distance(n.Namespace, ns) <= 1 {
			return true
		}
	}
	return false
}

// likely is the candidate with the shape SERVICE.NAMESPACE.svc.DOMAIN, else the first of the cluster's.
func (x explainer) likely() string {
	first := ""
	for _, t := range x.tried {
		if t.found.Kind == answers.Foreign {
			continue
		}
		if n, ok := x.objectName(t.name); ok && strings.EqualFold(t.name, x.nameOf(n)) {
			return t.name
		}
		if first == "" {
			first = t.name
		}
	}
	return first
}

// missing explains a name that does not exist.
func (x explainer) missing(v *flow.Verdict) {
	if name := x.likely(); name != "" {
		v.Name = name
	}
	n, ok := x.objectName(v.Name)
	if !ok || x.s == nil {
		v.Why = v.Name + " does not exist"
		v.Findings = []flow.Finding{finding(flow.NoSuchName, "name "+v.Name, "The cluster has no such name.", x.evidence()...)}
		return
	}
	if svc := x.s.Services.At(n); svc != nil {
		v.Why, v.Findings = x.below(svc, v.Name)
		return
	}
	v.Why = fmt.Sprintf("there is no Service %s", n)
	v.Findings = []flow.Finding{x.noSuchService(n)}
}

func (x explainer) evidence() []string {
	var out []string
	for _, t := range x.tried {
		if t.found.Kind != answers.Foreign {
			out = append(out, fmt.Sprintf("declared %s %s", t.name, dns.RcodeToString[t.found.Rcode]))
		}
	}
	return out
}

// below explains a missing name of a Service that exists.
func (x explainer) below(svc *model.Service, name string) (string, []flow.Finding) {
	object := "Service " + svc.Name.String()
	self := x.nameOf(svc.Name)
	switch {
	case svc.Headless && len(x.view.Types(self)) == 0:
		return object + " is headless and has no ready endpoint", []flow.Finding{x.notReady(svc, object)}
	case !strings.EqualFold(name, self):
		return "there is no such name below " + object, []flow.Finding{finding(flow.NoSuchName, "name "+name,
			fmt.Sprintf("%s has no name %s.", object, strings.TrimSuffix(name, "."+self)), x.evidence()...)}
	}
	return object + " has no address yet", []flow.Finding{finding(flow.NoSuchName, "name "+name, object+" has no ClusterIP.", x.evidence()...)}
}

// notReady says why a headless Service has no ready endpoint.
func (x explainer) notReady(svc *model.Service, object string) flow.Finding {
	headless := "its name exists only while it has a ready endpoint"
	if svc.Selector == nil && x.s.Backends(svc.Name) == nil {
		return finding(flow.NoSelectorNoSlices, object, "The headless "+object+" has no selector and no EndpointSlice: "+headless+".")
	}
	for p := range x.s.Pods.Values() {
		if svc.Selector != nil && p.Name.Namespace == svc.Name.Namespace && !p.Terminal() && model.Selects(svc.Selector, p.Labels) {
			return finding(flow.PodsNotReady, object, fmt.Sprintf("No Pod of the headless %s is ready (%s: %s): %s.", object, p.Name.Name, p.Problem, headless))
		}
	}
	if svc.Selector != nil {
		return finding(flow.SelectorNoPod, object, "The selector of the headless "+object+" matches no Pod: "+headless+".")
	}
	return finding(flow.PodsNotReady, object, "No endpoint of the headless "+object+" is ready: "+headless+".")
}

// noSuchService names what was probably meant: the Service of that name elsewhere, or one spelled almost like it.
func (x explainer) noSuchService(n model.Name) flow.Finding {
	f := finding(flow.NoSuchName, "name "+x.nameOf(n),
		fmt.Sprintf("There is no Service %s in namespace %s", n.Name, n.Namespace), x.evidence()...)
	var near []model.Name
	for have := range x.s.Services.All() {
		if score(have, n) < far {
			near = append(near, have)
		}
	}
	slices.SortFunc(near, func(a, b model.Name) int {
		if d := score(a, n) - score(b, n); d != 0 {
			return d
		}
		return a.Compare(b)
	})
	if len(near) == 0 {
		f.Cause += ", nor one with a similar name."
		return f
	}
	near = near[:min(len(near), 3)]
	var words []string
	for _, m := range near {
		words = append(words, m.String())
	}
	f.Cause += "; there is " + strings.Join(words, ", ") + "."
	f.Fix = fmt.Sprintf("use %s.%s", near[0].Name, near[0].Namespace)
	return f
}
