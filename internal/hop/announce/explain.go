package announce

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Explain says why a Service of type LoadBalancer cannot be reached from outside as far as its address goes: it has none,
// it is another controller's, or nobody announces it. It is empty when all is well and for Services of other types.
func Explain(s *model.Snapshot, service model.Name) []flow.Finding {
	svc := s.Services.At(service)
	if svc == nil || svc.Type != model.LoadBalancer {
		return nil
	}
	if !ours(svc) {
		return []flow.Finding{foreignClass(svc)}
	}
	if len(svc.LoadBalancerIPs) == 0 {
		return []flow.Finding{pending(s, svc)}
	}
	var out []flow.Finding
	e := newElectorate(s)
	for _, ip := range svc.LoadBalancerIPs {
		out = append(out, declared(e, flow.Flow{From: flow.FromOutside, Dst: netip.AddrPortFrom(ip.Addr, 0)}).Findings...)
	}
	return out
}

func foreignClass(svc *model.Service) flow.Finding {
	f := flow.Finding{Code: flow.LBForeignClass, Severity: flow.Info, Object: "Service " + svc.Name.String(),
		Cause: fmt.Sprintf("spec.loadBalancerClass is %q: another controller gives and announces its address", svc.LoadBalancerClass),
		Fix:   "see that controller, or make the Service anew with class " + model.LoadBalancerClass + " or none (the field cannot be changed)"}
	if len(svc.LoadBalancerIPs) == 0 {
		f.Severity = flow.Error
	}
	return f
}

func pending(s *model.Snapshot, svc *model.Service) flow.Finding {
	f := flow.Finding{Code: flow.LBPending, Severity: flow.Error, Object: "Service " + svc.Name.String(),
		Cause: "no AddressPool with a free address fits", Fix: "kubectl get addresspools; add one, enlarge one, or release addresses"}
	if s.Pools.Len() == 0 {
		f.Cause = "the cluster has no AddressPool"
		f.Fix = "kubectl apply -f - <<< '{apiVersion: podway.io/v1alpha1, kind: AddressPool, metadata: {name: default}, spec: {addresses: [192.0.2.10-192.0.2.50]}}'"
		return f
	}
	used := map[netip.Addr]bool{}
	for o := range s.Services.Values() {
		for _, ip := range o.LoadBalancerIPs {
			used[ip.Addr] = true
		}
	}
	for _, p := range model.Sorted(s.Pools, func(a, b *model.Pool) int { return strings.Compare(a.Name, b.Name) }) {
		f.Evidence = append(f.Evidence, "declared AddressPool "+p.Name+" "+poolWords(p, used))
	}
	if svc.RequestedLBIP.IsValid() {
		f.Evidence = append(f.Evidence, "declared spec.loadBalancerIP "+svc.RequestedLBIP.String())
	}
	for _, k := range []string{"podway.io/address-pool", "podway.io/load-balancer-ips"} {
		if v := svc.Annotations[k]; v != "" {
			f.Evidence = append(f.Evidence, "declared annotation "+k+" "+v)
		}
	}
	return f
}

func poolWords(p *model.Pool, used map[netip.Addr]bool) string {
	if p.Problem != "" {
		return "is unusable: " + p.Problem
	}
	taken, ranges := 0, make([]string, 0, len(p.Ranges))
	for a := range used {
		for _, r := range p.Ranges {
			if r.Contains(a) {
				taken++
			}
		}
	}
	for _, r := range p.Ranges {
		ranges = append(ranges, r.From.String()+"-"+r.To.String())
	}
	words := fmt.Sprintf("has %s, %d addresses taken", strings.Join(ranges, " "), taken)
	if !p.AutoAssign {
		words += ", and gives addresses only to Services that ask for it"
	}
	return words
}
