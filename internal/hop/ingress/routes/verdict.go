package routes

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Verdict is what the table does with a request: Forward to the endpoints, or Answer with 400, 404 or 503. A flow without
// request is none of the ingress's.
func (t *Table) Verdict(f flow.Flow) flow.Verdict {
	if f.HTTP == nil {
		return flow.Verdict{Action: flow.Pass, Why: "no HTTP request"}
	}
	host, ok := Host(f.HTTP.Host)
	if !ok {
		return flow.Verdict{Action: flow.Answer, Status: http.StatusBadRequest, Why: fmt.Sprintf("%q is no host name", f.HTTP.Host)}
	}
	path, _, _ := strings.Cut(f.HTTP.Path, "?")
	v := t.route(host, path)
	if f.HTTP.Scheme == "https" {
		t.addTLS(&v, host)
	}
	return v
}

func (t *Table) route(host, path string) flow.Verdict {
	m, _, err := t.Resolve(host, orSlash(path))
	switch {
	case err != nil:
		return flow.Verdict{Action: flow.Answer, Status: http.StatusBadRequest, Why: err.Error()}
	case m.Route == nil:
		v := flow.Verdict{Action: flow.Answer, Status: http.StatusNotFound, Why: t.whyNone(host)}
		v.Findings = t.noRule(host, path)
		return v
	}
	why := fmt.Sprintf("Ingress %s: %s -> %s", m.Route.Ingress, m.Route.Subject(), m.Route.Backend.words())
	if m.Route.Kind == Default {
		why = fmt.Sprintf("%s -> %s", m.Route.Subject(), m.Route.Backend.words())
	}
	v := flow.Verdict{Action: flow.Forward, Targets: slices.Clone(m.Backend.Endpoints), Why: why}
	if m.Backend.Draining {
		v.Why += "; none is ready, these still serve while they end"
	}
	if f, bad := t.backendFinding(m.Route); bad {
		v = flow.Verdict{Action: flow.Answer, Status: http.StatusServiceUnavailable, Why: why, Findings: []flow.Finding{f}}
	}
	if m.Route.Kind != Rule {
		v.Findings = append(v.Findings, t.unserved(host, path)...)
	}
	return v
}

// whyNone says how far the search came.
func (t *Table) whyNone(host string) string {
	h := t.host(host)
	if h == nil {
		return fmt.Sprintf("no Ingress has a rule for host %s", orStar(host))
	}
	for _, r := range h.routes() {
		if r.Kind == Rule {
			return fmt.Sprintf("host %s has rules, none for this path", orStar(r.Host))
		}
	}
	return fmt.Sprintf("host %s has no path that can be served", orStar(host))
}

// noRule explains a 404: first the Ingresses that would match if somebody served them, then the rules that there are.
func (t *Table) noRule(host, path string) []flow.Finding {
	out := t.unserved(host, path)
	f := flow.Finding{
		Code: flow.IngressNoRule, Severity: flow.Error, Object: "host " + orStar(host),
		Cause: fmt.Sprintf("no Ingress rule matches %s%s, so the proxy answers 404 itself.", host, orSlash(path)),
		Fix:   "add a rule for the host and path",
	}
	if h := t.host(host); h != nil {
		for i, r := range h.routes() {
			if i == 10 {
				break
			}
			f.Evidence = append(f.Evidence, fmt.Sprintf("declared %s in Ingress %s", r.Subject(), r.Ingress))
		}
	}
	return append(out, f)
}

// unserved names the Ingresses that would match the request if their class were served, in order of precedence.
func (t *Table) unserved(host, path string) []flow.Finding {
	canonical, _, err := Canonical(orSlash(path))
	if err != nil {
		return nil
	}
	var ings []*model.Ingress
	for ing := range t.snap.Ingresses.Values() {
		if t.cfg.Standing(t.snap, ing) != Served && wouldMatch(ing, host, canonical) {
			ings = append(ings, ing)
		}
	}
	slices.SortFunc(ings, (*model.Ingress).Compare)
	var out []flow.Finding
	for _, ing := range ings {
		out = append(out, t.classFinding(ing, t.cfg.Standing(t.snap, ing)))
	}
	return out
}

// wouldMatch asks the Ingress alone.
func wouldMatch(ing *model.Ingress, host, path string) bool {
	m := &members{ings: []*model.Ingress{ing}}
	one := &Table{}
	for _, key := range hostsOf(ing) {
		one.hosts = one.hosts.Set(key, buildHost(key, m))
	}
	return one.find(host, path) != nil
}

// addTLS says which certificate the client is given, and what is wrong with it.
func (t *Table) addTLS(v *flow.Verdict, host string) {
	e := t.TLSFor(host)
	if e == nil {
		v.Why += "; TLS with the default certificate: no Ingress has TLS for the host"
		if c := t.DefaultCert(); c != nil && c.Covers(host) {
			return
		}
		v.Findings = append(v.Findings, flow.Finding{
			Code: flow.IngressBadSecret, Severity: flow.Warning, Object: "host " + orStar(host),
			Cause: "no Ingress has TLS for the host, so clients get the default certificate and do not trust it.",
			Fix:   "add the host to spec.tls of its Ingress, with a Secret that has its certificate",
		})
		return
	}
	if v.Why += fmt.Sprintf("; TLS with Secret %s of Ingress %s", e.Cert.Secret, e.Ingress); e.Cert.Err != nil {
		v.Why += fmt.Sprintf(", which cannot be used (%v): clients get the default certificate", e.Cert.Err)
	}
	ing, ok := t.snap.Ingresses.Get(e.Ingress)
	if !ok {
		return
	}
	t.tlsFindings(ing, func(_ model.Name, f flow.Finding) {
		if f.Code == flow.IngressBadSecret {
			v.Findings = append(v.Findings, f)
		}
	})
	if e.Cert.Err == nil && !e.Cert.Covers(host) && !listed(ing, host) {
		v.Findings = append(v.Findings, flow.Finding{
			Code: flow.IngressBadSecret, Severity: flow.Error, Object: object(e.Ingress),
			Cause: fmt.Sprintf("the certificate in Secret %s is not for host %s; its names are %s.", e.Cert.Secret, host, nameList(e.Cert.Names())),
			Fix:   fmt.Sprintf("issue a certificate with the name %s", host),
		})
	}
}

func listed(ing *model.Ingress, host string) bool {
	for _, entry := range ing.TLS {
		if slices.Contains(entry.Hosts, host) {
			return true
		}
	}
	return false
}
