package routes

import (
	"fmt"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Findings returns what is wrong with each Ingress that is served, and with each that nobody serves because of its class.
// Ingresses of other controllers are left alone; one without findings is not in the map.
func Findings(cfg Config, s *model.Snapshot) map[model.Name][]flow.Finding {
	return Build(cfg, s).Findings()
}

// Findings is Findings of the table's snapshot.
func (t *Table) Findings() map[model.Name][]flow.Finding {
	out := map[model.Name][]flow.Finding{}
	add := func(n model.Name, f flow.Finding) { out[n] = append(out[n], f) }
	for ing := range t.snap.Ingresses.Values() {
		switch state := t.cfg.Standing(t.snap, ing); state {
		case Served:
			t.specFindings(ing, add)
			t.tlsFindings(ing, add)
		case NoSuchClass, NoClass:
			add(ing.Name, t.classFinding(ing, state))
		}
	}
	for _, h := range t.hosts.All() {
		t.hostFindings(h, add)
	}
	return out
}

// IngressFindings is the part of Findings that concerns the hosts of one Ingress; it costs what they hold.
func (t *Table) IngressFindings(n model.Name) []flow.Finding {
	ing, ok := t.snap.Ingresses.Get(n)
	if !ok || t.cfg.Standing(t.snap, ing) != Served {
		return nil
	}
	var out []flow.Finding
	add := func(of model.Name, f flow.Finding) {
		if of == n {
			out = append(out, f)
		}
	}
	t.specFindings(ing, add)
	t.tlsFindings(ing, add)
	for _, key := range hostsOf(ing) {
		t.hostFindings(t.hosts.At(key), add)
	}
	return out
}

// hostFindings are those about the routes of a host: what they lead to, and which of them are not used.
func (t *Table) hostFindings(h *hostRoutes, add func(model.Name, flow.Finding)) {
	for _, r := range h.routes() {
		if f, bad := t.backendFinding(r); bad {
			add(r.Ingress, f)
		}
	}
	for _, l := range h.losers {
		add(l.Loser.Ingress, lossFinding(l))
	}
}

func object(n model.Name) string { return "Ingress " + n.String() }

// Subject is the route in words: `path /cart (Prefix) of host shop.example`.
func (r *Route) Subject() string {
	if r.Kind != Rule {
		return "the " + string(r.Kind)
	}
	host := "of host " + r.Host
	if r.Host == "" {
		host = "of every host"
	}
	return fmt.Sprintf("path %s (%s) %s", orSlash(r.Path), r.Type, host)
}

func orSlash(p string) string {
	if p == "" {
		return "/"
	}
	return p
}

// backendFinding is what keeps a route's backend from answering.
func (t *Table) backendFinding(r *Route) (flow.Finding, bool) {
	f := flow.Finding{Severity: flow.Error, Object: object(r.Ingress)}
	if r.Kind == Default {
		f.Object = "the ingress's default backend"
	}
	k, b := r.Backend, t.backends.At(r.Backend)
	ns := k.Service.Namespace
	switch b.State {
	case NoService:
		f.Code = flow.IngressNoService
		f.Cause = fmt.Sprintf("%s names Service %s, which does not exist; requests get 503.", r.Subject(), k.Service)
		f.Fix = fmt.Sprintf("create Service %s in namespace %s, or name one of `kubectl -n %s get services`", k.Service.Name, ns, ns)
	case NoPort:
		f.Code = flow.IngressNoPort
		f.Cause = fmt.Sprintf("%s names port %s, which Service %s does not have; requests get 503.", r.Subject(), portWords(k.Port), k.Service)
		f.Evidence, f.Fix = t.portFacts(k)
	case NoEndpoint:
		f.Code = flow.IngressNoBackend
		f.Cause = fmt.Sprintf("%s leads to Service %s, which has no ready endpoint; requests get 503.", r.Subject(), k.Service)
		f.Fix = fmt.Sprintf("podway trace svc/%s -n %s", k.Service.Name, ns)
	case External:
		f.Code = flow.IngressUnsupported
		f.Cause = fmt.Sprintf("%s leads to Service %s of type ExternalName, which is not served: whoever writes a Service could reach any host through the proxy; requests get 503.", r.Subject(), k.Service)
		f.Fix = "use a Service without selector and an EndpointSlice with the addresses"
	case Unserved:
		f.Code = flow.IngressUnsupported
		f.Cause = fmt.Sprintf("%s has the resource backend %s, which is not served; requests get 503.", r.Subject(), k.Resource)
		f.Fix = "use backend.service"
	default:
		return flow.Finding{}, false
	}
	return f, true
}

func portWords(p model.PortRef) string {
	if p.Name != "" {
		return p.Name
	}
	return fmt.Sprint(p.Number)
}

// portFacts lists the ports that there are and notices the Pod's port in place of the Service's.
func (t *Table) portFacts(k BackendKey) (evidence []string, fix string) {
	svc, ok := t.snap.Services.Get(k.Service)
	if !ok {
		return nil, ""
	}
	fix = "set backend.service.port to one of the Service's ports"
	var ports []string
	for _, p := range svc.Ports {
		line := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if p.Name != "" {
			line = p.Name + " " + line
		}
		ports = append(ports, line)
		if k.Port.Number != 0 && p.TargetPort.Number == k.Port.Number {
			fix = fmt.Sprintf("set backend.service.port.number to %d: %d is the Pods' port (targetPort), not the Service's", p.Port, k.Port.Number)
		}
	}
	return []string{"declared Service ports: " + strings.Join(ports, ", ")}, fix
}

func lossFinding(l Loss) flow.Finding {
	f := flow.Finding{
		Code: flow.IngressConflict, Severity: flow.Warning, Object: object(l.Loser.Ingress),
		Cause: fmt.Sprintf("%s is also in Ingress %s, which is older and wins.", l.Loser.Subject(), l.Winner.Ingress),
		Fix:   "remove the path from one of the two",
	}
	if l.Loser.Ingress == l.Winner.Ingress {
		f.Cause = fmt.Sprintf("%s stands there twice; the first one wins.", l.Loser.Subject())
		f.Fix = "remove one of the two"
	}
	return f
}

// tlsFindings are those about the Secrets of an Ingress.
func (t *Table) tlsFindings(ing *model.Ingress, add func(model.Name, flow.Finding)) {
	for _, entry := range ing.TLS {
		cert := t.cert(ing, entry)
		f := flow.Finding{Code: flow.IngressBadSecret, Severity: flow.Error, Object: object(ing.Name)}
		if entry.Secret == "" {
			f.Severity, f.Cause = flow.Warning, "an entry of spec.tls names no Secret; its hosts are served with a certificate that nobody trusts."
			f.Fix = "set secretName in spec.tls"
			add(ing.Name, f)
			continue
		}
		if cert.Err != nil {
			f.Cause = fmt.Sprintf("TLS Secret %s cannot be used: %v.", cert.Secret, cert.Err)
			f.Fix = secretFix(cert.Secret)
			add(ing.Name, f)
			continue
		}
		if end := cert.NotAfter(); t.snap.Time.After(end) {
			f.Cause = fmt.Sprintf("the certificate in Secret %s expired on %s.", cert.Secret, end.UTC().Format(time.DateOnly))
			f.Fix = "renew the certificate"
			add(ing.Name, f)
		}
		for _, h := range entry.Hosts {
			if !cert.Covers(h) {
				f.Cause = fmt.Sprintf("the certificate in Secret %s is not for host %s; its names are %s.", cert.Secret, h, nameList(cert.Names()))
				f.Fix = fmt.Sprintf("issue a certificate with the name %s", h)
				add(ing.Name, f)
			}
		}
		t.tlsLosses(ing, entry, add)
	}
}

// tlsLosses are the hosts that another Ingress's Secret serves.
func (t *Table) tlsLosses(ing *model.Ingress, entry model.IngressTLS, add func(model.Name, flow.Finding)) {
	for _, h := range t.entryHosts(ing, entry) {
		key, ok := hostKey(h)
		if !ok || key == "" {
			continue
		}
		winner := t.tls.At(key)
		if winner == nil || winner.Ingress == ing.Name || winner.Cert.Leaf().Equal(t.cert(ing, entry).Leaf()) {
			continue
		}
		add(ing.Name, flow.Finding{
			Code: flow.IngressConflict, Severity: flow.Warning, Object: object(ing.Name),
			Cause: fmt.Sprintf("host %s gets its certificate from Secret %s of Ingress %s, which is older and wins.", h, winner.Cert.Secret, winner.Ingress),
			Fix:   "use the same Secret in both, or remove one of the two",
		})
	}
}

func secretFix(n model.Name) string {
	return fmt.Sprintf("kubectl -n %s create secret tls %s --cert=FILE --key=FILE", n.Namespace, n.Name)
}

func nameList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
