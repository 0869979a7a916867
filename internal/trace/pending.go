package trace

import (
	"fmt"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// pending says why a Service of type LoadBalancer has no address.
func (x *Index) pending(svc *model.Service) flow.Finding {
	f := flow.Finding{Code: flow.LBPending, Severity: flow.Error, Object: "Service " + svc.Name.String()}
	switch {
	case svc.LoadBalancerClass != "" && svc.LoadBalancerClass != model.LoadBalancerClass:
		f.Code = flow.LBForeignClass
		f.Cause = fmt.Sprintf("loadBalancerClass is %q, so another controller must give the address, and none has", svc.LoadBalancerClass)
		f.Fix = "- loadBalancerClass: " + svc.LoadBalancerClass
	case svc.NoAddress != "":
		f.Cause = svc.NoAddress
		f.Fix = "ask for an address or a pool that can be given (annotations podway.io/load-balancer-ips, podway.io/address-pool), or extend an AddressPool"
		f.Evidence = []string{"declared condition " + model.AddressCondition + ": False"}
	case x.s.Pools.Len() == 0:
		f.Cause = "there is no AddressPool to take an address from"
		f.Fix = "kubectl apply an AddressPool (podway.io/v1alpha1) with a range of free addresses"
	case svc.RequestedLBIP.IsValid() && !x.pooled(svc):
		f.Cause = fmt.Sprintf("it asks for %s, which is in no AddressPool", svc.RequestedLBIP)
		f.Fix = "- loadBalancerIP: " + svc.RequestedLBIP.String()
	case x.freeAddress() != "":
		f.Cause = fmt.Sprintf("AddressPool %s has free addresses, and no controller has given it one", x.freeAddress())
		f.Fix = "kubectl -n kube-system logs deploy/podway-controller: see that it runs and leads"
		f.Evidence = x.controllers()
	default:
		f.Cause = "no AddressPool has a free address for it"
		f.Fix = "kubectl edit addresspools: add a range"
	}
	for _, p := range model.Sorted(x.s.Pools, func(a, b *model.Pool) int { return model.N("", a.Name).Compare(model.N("", b.Name)) }) {
		line := fmt.Sprintf("declared AddressPool %s: %d ranges, autoAssign %t", p.Name, len(p.Ranges), p.AutoAssign)
		if p.Problem != "" {
			line += ", unusable: " + p.Problem
		}
		f.Evidence = append(f.Evidence, line)
	}
	return f
}

// freeAddress is a usable pool that gives addresses to all and has one that no Service has; "" = none.
func (x *Index) freeAddress() string {
	for _, p := range model.Sorted(x.s.Pools, func(a, b *model.Pool) int { return strings.Compare(a.Name, b.Name) }) {
		if !p.AutoAssign || p.Problem != "" {
			continue
		}
		for _, r := range p.Ranges {
			a := r.From
			for range maxLooked {
				if !r.Contains(a) {
					break
				}
				if len(x.services[a]) == 0 {
					return p.Name
				}
				a = a.Next()
			}
		}
	}
	return ""
}

// maxLooked is how many addresses of a range are looked at: as many Services may have one each.
const maxLooked = 1 << 16

func (x *Index) pooled(svc *model.Service) bool {
	for p := range x.s.Pools.Values() {
		for _, r := range p.Ranges {
			if r.Contains(svc.RequestedLBIP) {
				return true
			}
		}
	}
	return false
}
