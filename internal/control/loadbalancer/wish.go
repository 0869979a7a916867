package loadbalancer

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

// What a Service may say about its address.
const (
	AnnotationPool = "podway.io/address-pool"      // names of pools, with commas
	AnnotationIPs  = "podway.io/load-balancer-ips" // addresses, with commas: one of each family; stronger than spec.loadBalancerIP
)

func ours(svc *model.Service) bool {
	return svc.LoadBalancerClass == "" || svc.LoadBalancerClass == model.LoadBalancerClass
}

// wish is what a Service asks for, and what it has got.
type wish struct {
	svc     *model.Service
	ips     []netip.Addr
	pools   []string
	bad     string                // why it cannot be understood
	foreign bool                  // another controller has served it
	got     map[string]netip.Addr // by family
	until   map[string]netip.Addr // what it has, and keeps only until it gets what it asks for
}

func (a *allocator) wish(svc *model.Service) wish {
	w := wish{svc: svc, got: map[string]netip.Addr{}, until: map[string]netip.Addr{},
		pools: list(svc.Annotations[AnnotationPool])}
	for _, s := range list(svc.Annotations[AnnotationIPs]) {
		ip, err := netip.ParseAddr(s)
		if err != nil {
			w.bad = fmt.Sprintf("annotation %s: %q is no address", AnnotationIPs, s)
			return w
		}
		w.ips = append(w.ips, ip.Unmap())
	}
	if len(w.ips) == 0 && svc.RequestedLBIP.IsValid() {
		w.ips = []netip.Addr{svc.RequestedLBIP}
	}
	for _, p := range w.pools {
		if !slices.ContainsFunc(a.pools, func(x *model.Pool) bool { return x.Name == p }) {
			w.bad = fmt.Sprintf("annotation %s: there is no AddressPool %q", AnnotationPool, p)
		}
	}
	return w
}

// explicit reports whether the Service asks for something that only podway can give.
func (w *wish) explicit() bool {
	return len(w.pools) > 0 || len(list(w.svc.Annotations[AnnotationIPs])) > 0
}

// allows reports whether an address of the pool is what the Service asks for.
func (w *wish) allows(p *model.Pool, ip netip.Addr) bool {
	return (len(w.pools) == 0 || slices.Contains(w.pools, p.Name)) && (len(w.ips) == 0 || slices.Contains(w.ips, ip) || !w.asks(family(ip)))
}

// asks reports whether an address of the family is among those asked for.
func (w *wish) asks(f string) bool {
	return slices.ContainsFunc(w.ips, func(ip netip.Addr) bool { return family(ip) == f })
}

func list(s string) (out []string) {
	for p := range strings.SplitSeq(s, ",") {
		if p = strings.TrimSpace(p); p != "" {
			out = append(out, p)
		}
	}
	return out
}

func family(a netip.Addr) string {
	if a.Is4() {
		return "IPv4"
	}
	return "IPv6"
}
