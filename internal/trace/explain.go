package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Explain chooses the one cause of what is broken on the path, and lists what else is wrong, most important first. The cause
// is nil when nothing is known to be wrong.
func (x *Index) Explain(p *Path) (cause *flow.Finding, others []flow.Finding) {
	if st := p.BrokenStep(); st != nil {
		cause = x.explainStep(p, st)
	}
	for i := range p.Steps {
		for _, f := range stepFindings(&p.Steps[i]) {
			if cause == nil && f.Severity == flow.Error && p.BrokenStep() == nil {
				cause = &f // it arrives, but not as the user meant
				continue
			}
			if !known(others, f) && !(cause != nil && cause.Code == f.Code && cause.Object == f.Object) {
				others = append(others, f)
			}
		}
	}
	if cause != nil {
		others = slices.DeleteFunc(others, func(f flow.Finding) bool { return f.Severity == flow.Error && sameTrouble(*cause, f) })
	}
	return cause, others
}

// stepFindings is all findings of a step: this package's, then those of the live state, then those of the API.
func stepFindings(st *Step) []flow.Finding {
	out := slices.Clone(st.Findings)
	if st.Programmed != nil {
		out = append(out, st.Programmed.Findings...)
	}
	return append(out, st.Verdict.Findings...)
}

func known(all []flow.Finding, f flow.Finding) bool {
	return slices.ContainsFunc(all, func(o flow.Finding) bool { return o.Code == f.Code && o.Object == f.Object })
}

// sameTrouble reports whether f is another name for the cause: the ingress's "no ready endpoint" beside the reason why.
func sameTrouble(cause, f flow.Finding) bool {
	if f.Code == flow.IngressNoBackend || f.Code == flow.IngressDown || f.Code == flow.IngressNoRule {
		return true
	}
	if (cause.Code == flow.IngressDown || cause.Code == flow.DNSServerDown) && cause.Object == f.Object && backendCode(f.Code) {
		return true
	}
	return cause.Code == f.Code || cause.Object == f.Object && cause.Code[:len(cause.Code)-2] == f.Code[:len(f.Code)-2]
}

func (x *Index) explainStep(p *Path, st *Step) *flow.Finding {
	if f := firstError(st.Findings); f != nil {
		return f
	}
	own := x.explainHop(p, st)
	if own != nil {
		return own
	}
	if f := firstError(stepFindings(st)); f != nil {
		return f
	}
	return fallback(st)
}

func (x *Index) explainHop(p *Path, st *Step) *flow.Finding {
	switch st.Hop {
	case HopName:
		return x.explainName(p, st)
	case HopProxy:
		return x.explainProxy(st)
	case HopIngress:
		return x.explainIngress(st)
	case HopAnnounce:
		return x.explainAnnounce(st)
	}
	return nil
}

func firstError(all []flow.Finding) *flow.Finding {
	for i := range all {
		if all[i].Severity == flow.Error {
			return &all[i]
		}
	}
	return nil
}

// fallback names the hop when nobody knows more.
func fallback(st *Step) *flow.Finding {
	code := map[string]flow.Code{HopName: flow.DNSServerDown, HopAnnounce: flow.LBNotAnnounced, HopIngress: flow.IngressDown,
		HopProxy: flow.RulesDiffer, HopPodnet: flow.NoRouteToPod, HopProcess: flow.NothingListens}[st.Hop]
	c, _ := flow.CauseOf(code)
	why := st.Verdict.Why
	if why == "" {
		why = c.Title
	}
	object := "node " + st.Node
	if st.Service.Name != "" {
		object = "Service " + st.Service.String()
	}
	f := finding(code, object, fmt.Sprintf("%s (%s)", why, st.Verdict), c.Fix)
	return &f
}

// finding makes an error.
func finding(code flow.Code, object, cause, fix string, evidence ...string) flow.Finding {
	return flow.Finding{Code: code, Severity: flow.Error, Object: object, Cause: cause, Fix: fix, Evidence: evidence}
}

func serviceObject(svc *model.Service) string { return "Service " + svc.Name.String() }

// diff is a change of one field as the user would make it.
func diff(where, from, to string) string {
	return where + ":\n- " + from + "\n+ " + to
}

// explainAnnounce says why nobody answers for the address.
func (x *Index) explainAnnounce(st *Step) *flow.Finding {
	svc := x.s.Services.At(st.Service)
	if svc == nil {
		return nil
	}
	local := map[string]bool{}
	x.s.Backends(svc.Name).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		if e.Ready {
			local[e.Node] = true
		}
	})
	f := finding(flow.LBNotAnnounced, serviceObject(svc), fmt.Sprintf("no node may announce %s", st.Flow.Dst.Addr()), "")
	lacks := map[string]int{}
	for _, n := range model.Sorted(x.s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) }) {
		lack := ""
		switch {
		case !n.Ready:
			lack = "is not ready"
		case n.ExcludeLB:
			lack = "has the label node.kubernetes.io/exclude-from-external-load-balancers"
			f.Fix = "kubectl label node " + n.Name + " node.kubernetes.io/exclude-from-external-load-balancers-"
		case svc.ExternalPolicyLocal && !local[n.Name]:
			lack = "has no ready Pod, and externalTrafficPolicy is Local"
		}
		if lack == "" {
			return nil // this node could: the hop knows better
		}
		lacks[lack]++
		f.Evidence = append(f.Evidence, "declared node "+n.Name+" "+lack)
	}
	if len(lacks) == 1 {
		for l := range lacks {
			f.Cause += ": every node " + l
		}
	}
	if len(lacks) == 1 && svc.ExternalPolicyLocal && f.Fix == "" && len(local) == 0 {
		if inner := x.explainBackends(svc, firstPort(svc)); inner != nil {
			inner.Evidence = append(inner.Evidence, "so no node announces "+st.Flow.Dst.Addr().String())
			return inner
		}
	}
	if f.Fix == "" {
		f.Fix = "kubectl get nodes; make one ready"
	}
	return &f
}

func firstPort(svc *model.Service) *model.ServicePort {
	if len(svc.Ports) == 0 {
		return nil
	}
	return &svc.Ports[0]
}
