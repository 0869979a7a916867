package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// explainName says why a name has no address.
func (x *Index) explainName(p *Path, st *Step) *flow.Finding {
	if f := x.dnsDown(st); f != nil {
		return f
	}
	w := &walker{Index: x, q: p.Question}
	w.target, _, _ = ParseTarget(p.Question.Target)
	if p.Question.DNSType != "" {
		w.target.Host = p.Question.Target
	}
	if svc := w.serviceOfTarget(); svc != nil {
		if svc.Headless {
			return x.explainHeadless(svc)
		}
		return nil
	}
	if st.Verdict.Rcode == "SERVFAIL" || st.Verdict.Rcode == "REFUSED" {
		f := finding(flow.DNSNotSynced, "DNS server of node "+st.Node, "it answers "+st.Verdict.Rcode+" for "+w.target.Host, "kubectl -n kube-system get pods -o wide: see the DNS server and its log")
		return &f
	}
	f := w.noSuchName(strings.TrimSuffix(w.target.Host, "."))
	return &f
}

// dnsDown is for a DNS Service that has Pods and none of them is usable.
func (x *Index) dnsDown(st *Step) *flow.Finding {
	svc := x.s.Services.At(dnsService)
	if svc == nil || len(svc.Selector) == 0 || st.Verdict.Action == flow.Answer && st.Err == nil {
		return nil
	}
	for i := range svc.Ports {
		if protoOf(svc.Ports[i].Protocol) == flow.UDP && len(x.ready(svc, &svc.Ports[i], st.Flow.Dst.Addr().Is4())) == 0 {
			inner := x.explainBackends(svc, &svc.Ports[i])
			if inner == nil {
				return nil
			}
			f := finding(flow.DNSServerDown, serviceObject(svc), "the cluster's DNS has no usable Pod: "+inner.Cause, inner.Fix, inner.Evidence...)
			return &f
		}
	}
	return nil
}

// explainHeadless is for a headless Service, whose name exists only with ready endpoints.
func (x *Index) explainHeadless(svc *model.Service) *flow.Finding {
	f := x.explainBackends(svc, firstPort(svc))
	if f != nil {
		f.Evidence = append(f.Evidence, "the Service is headless: its name exists only while it has a ready endpoint")
	}
	return f
}

// noSuchName proposes what was probably meant: the Service in another namespace, or a similar name.
func (w *walker) noSuchName(host string) flow.Finding {
	name, ns := w.nameParts(host)
	f := finding(flow.NoSuchName, "name "+host, fmt.Sprintf("there is no Service %s in namespace %s", name, ns), "kubectl get services -A")
	if len(w.servicesIn(ns)) == 0 && !w.namespaceKnown(ns) {
		f.Cause = fmt.Sprintf("nothing is known of a namespace %s", ns)
	}
	suggest := func(svc *model.Service, why string) flow.Finding {
		f.Cause += "; " + why
		f.Fix = "use " + w.spelled(svc)
		return f
	}
	var homes []*model.Service
	for svc := range w.s.Services.Values() {
		if svc.Name.Name == name {
			homes = append(homes, svc)
		}
	}
	slices.SortFunc(homes, func(a, b *model.Service) int { return a.Name.Compare(b.Name) })
	if len(homes) > 0 {
		best := homes[0]
		for _, h := range homes {
			if alike(h.Name.Namespace, ns) {
				best = h
			}
		}
		return suggest(best, "namespace "+best.Name.Namespace+" has one of this name")
	}
	if to := closest(name, w.servicesIn(ns)); to != "" {
		return suggest(w.s.Services.At(model.N(ns, to)), "Service "+to+" is spelled almost like it")
	}
	for _, near := range w.namespaces() {
		if to := closest(name, w.servicesIn(near)); to != "" && alike(near, ns) {
			return suggest(w.s.Services.At(model.N(near, to)), "namespace "+near+" has Service "+to)
		}
	}
	if have := w.servicesIn(ns); len(have) > 0 {
		f.Evidence = append(f.Evidence, "declared Services of "+ns+": "+strings.Join(have[:min(len(have), 10)], ", "))
	}
	return f
}

// nameParts reads the name as the cluster's DNS would: service and namespace.
func (w *walker) nameParts(host string) (name, namespace string) {
	host = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(host), "."+w.q.domain()), ".svc")
	labels := strings.Split(host, ".")
	if len(labels) == 1 {
		return labels[0], w.q.namespace()
	}
	return labels[len(labels)-2], labels[len(labels)-1]
}

// spelled is the shortest name of the Service that works for the client.
func (w *walker) spelled(svc *model.Service) string {
	if svc.Name.Namespace == w.q.namespace() {
		return svc.Name.Name
	}
	return svc.Name.Name + "." + svc.Name.Namespace
}

func (w *walker) servicesIn(ns string) []string {
	var out []string
	for n := range w.s.Services.All() {
		if n.Namespace == ns {
			out = append(out, n.Name)
		}
	}
	slices.Sort(out)
	return out
}

func (w *walker) namespaces() []string {
	var out []string
	for n := range w.s.Services.All() {
		out = append(out, n.Namespace)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (w *walker) namespaceKnown(ns string) bool {
	for n := range w.s.Pods.All() {
		if n.Namespace == ns {
			return true
		}
	}
	return false
}
