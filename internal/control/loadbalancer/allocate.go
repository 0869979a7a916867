package loadbalancer

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/model"
)

// Reasons of a condition and an Event.
const (
	ReasonAllocated = "IPAllocated"
	ReasonPartly    = "IPPartlyAllocated" // one of two families
	ReasonFailed    = "AllocationFailed"  // no pool, or no free address in those that fit
	ReasonTaken     = "AddressTaken"      // the address asked for is another Service's
	ReasonNotInPool = "AddressNotInPool"  // the address asked for is in no pool, or not in those asked for
	ReasonBadWish   = "InvalidRequest"    // an annotation cannot be read
	ReasonReleased  = "IPReleased"
)

// Assignment is what the load balancer status of one Service shall be.
type Assignment struct {
	Service *model.Service
	Addrs   []netip.Addr
	Reason  string // one of the constants above
	Message string // for people
	Release bool   // the Service is none of ours any more: take addresses and condition away
}

// Failed reports whether the Service did not get what it needs.
func (a Assignment) Failed() bool {
	return a.Reason != ReasonAllocated && a.Reason != ReasonPartly && a.Reason != ReasonReleased
}

// Allocate decides what each Service that is podway's shall have; Services that others serve are not in it. An address
// that a Service has, it keeps, as long as a pool contains it and the Service does not ask for another. No address is
// given twice; of two Services that have the same one, the older keeps it. The result is ordered by name.
func Allocate(s *model.Snapshot) []Assignment { return Ranges{}.Allocate(s) }

// Ranges are where the cluster's own addresses are, beside the nodes' ranges of Pods: an address of them is given to no
// Service.
type Ranges struct{ Pods, Services []netip.Prefix }

// Allocate is the function Allocate in a cluster with these ranges.
func (r Ranges) Allocate(s *model.Snapshot) []Assignment {
	a := newAllocator(s)
	a.barred = slices.Concat(model.PodRanges(s, r.Pods), model.ServiceRanges(s, r.Services))
	var services []*model.Service
	for svc := range s.Services.Values() {
		switch {
		case svc.Type == model.LoadBalancer && ours(svc) && !svc.Deleting:
			services = append(services, svc)
		case svc.Type != model.LoadBalancer && a.anyOurs(svc):
			a.out = append(a.out, Assignment{Service: svc, Release: true, Reason: ReasonReleased,
				Message: "the Service is no longer of type LoadBalancer"})
		case svc.Type == model.LoadBalancer:
			a.reserve(svc) // on its way out, or another controller's
		}
	}
	slices.SortFunc(services, func(x, y *model.Service) int {
		return cmp.Or(x.Created.Compare(y.Created), x.Name.Compare(y.Name))
	})
	wishes := make([]wish, len(services))
	for i, svc := range services {
		wishes[i] = a.wish(svc)
		a.keep(&wishes[i])
	}
	for i := range wishes {
		if !wishes[i].foreign {
			a.serve(&wishes[i])
		}
	}
	slices.SortFunc(a.out, func(x, y Assignment) int { return x.Service.Name.Compare(y.Service.Name) })
	return a.out
}

type allocator struct {
	pools  []*model.Pool // by name
	taken  map[netip.Addr]string
	barred []netip.Prefix        // of Pods and ClusterIPs
	cursor map[string]netip.Addr // pool and range -> the first address that was not looked at yet
	out    []Assignment
}

func newAllocator(s *model.Snapshot) *allocator {
	a := &allocator{taken: map[netip.Addr]string{}, cursor: map[string]netip.Addr{}}
	a.pools = model.Sorted(s.Pools, func(x, y *model.Pool) int { return strings.Compare(x.Name, y.Name) })
	for n := range s.Nodes.Values() {
		for _, ip := range n.Addrs {
			a.taken[ip] = "node " + n.Name
		}
	}
	for svc := range s.Services.Values() {
		for _, ip := range svc.ExternalIPs {
			a.taken[ip] = "externalIPs of Service " + svc.Name.String()
		}
	}
	return a
}

func (a *allocator) reserve(svc *model.Service) {
	for _, ip := range svc.LoadBalancerIPs {
		a.taken[ip.Addr] = "Service " + svc.Name.String()
	}
}

func (a *allocator) anyOurs(svc *model.Service) bool {
	return slices.ContainsFunc(svc.LoadBalancerIPs, func(ip model.LoadBalancerIP) bool { return a.poolOf(ip.Addr) != nil })
}

func (a *allocator) poolOf(ip netip.Addr) *model.Pool {
	for _, p := range a.pools {
		if contains(p, ip) {
			return p
		}
	}
	return nil
}

func contains(p *model.Pool, ip netip.Addr) bool {
	return slices.ContainsFunc(p.Ranges, func(r model.AddrRange) bool { return r.Contains(ip) })
}

// keep takes for the Service what it has and may keep. A Service that has only addresses of no pool, and asks for nothing,
// is somebody else's.
func (a *allocator) keep(w *wish) {
	held := w.svc.LoadBalancerIPs
	w.foreign = len(held) > 0 && !w.explicit() && !a.anyOurs(w.svc)
	if w.foreign {
		a.reserve(w.svc)
		return
	}
	for _, ip := range held {
		f, p := family(ip.Addr), a.poolOf(ip.Addr)
		if p == nil || !a.may(w, ip.Addr) || !slices.Contains(w.svc.IPFamilies, f) || w.got[f].IsValid() {
			continue
		}
		if w.bad != "" || w.allows(p, ip.Addr) {
			a.take(w, ip.Addr)
		} else if !w.until[f].IsValid() {
			w.until[f] = ip.Addr
			a.taken[ip.Addr] = "Service " + w.svc.Name.String()
		}
	}
}

// may reports whether nobody but the Service itself has the address.
func (a *allocator) may(w *wish, ip netip.Addr) bool {
	by := a.taken[ip]
	return by == "" || by == "externalIPs of Service "+w.svc.Name.String()
}

func (a *allocator) take(w *wish, ip netip.Addr) {
	w.got[family(ip)] = ip
	a.taken[ip] = "Service " + w.svc.Name.String()
}

// serve finds an address for each family that has none yet.
func (a *allocator) serve(w *wish) {
	out := Assignment{Service: w.svc, Reason: ReasonAllocated}
	var failed, why string
	if w.bad != "" {
		failed, why = ReasonBadWish, w.bad
	}
	for _, f := range w.svc.IPFamilies {
		if !w.got[f].IsValid() && w.bad == "" {
			if reason, message := a.findOrStay(w, f); reason != "" && failed == "" {
				failed, why = reason, message
			}
		}
		if ip := w.got[f]; ip.IsValid() {
			out.Addrs = append(out.Addrs, ip)
		}
	}
	switch {
	case failed == "":
		out.Message = "has " + join(out.Addrs)
	case len(out.Addrs) > 0 && failed == ReasonFailed && len(w.until) == 0:
		out.Reason, out.Message = ReasonPartly, fmt.Sprintf("has %s; %s", join(out.Addrs), why)
	case len(out.Addrs) > 0:
		out.Reason, out.Message = failed, fmt.Sprintf("keeps %s; %s", join(out.Addrs), why)
	default:
		out.Reason, out.Message = failed, why
	}
	a.out = append(a.out, out)
}

// findOrStay takes a new address; if there is none, the Service keeps the one that it does not want any more.
func (a *allocator) findOrStay(w *wish, f string) (reason, message string) {
	reason, message = a.find(w, f)
	old := w.until[f]
	switch {
	case !old.IsValid():
	case reason != "":
		w.got[f] = old
	default:
		delete(a.taken, old)
	}
	return reason, message
}

// find takes an address of the family, or says why there is none.
func (a *allocator) find(w *wish, f string) (reason, message string) {
	if len(w.ips) > 0 {
		return a.findAsked(w, f)
	}
	var fit []*model.Pool
	for _, p := range a.pools {
		if p.Problem == "" && (slices.Contains(w.pools, p.Name) || len(w.pools) == 0 && p.AutoAssign) {
			fit = append(fit, p)
		}
	}
	for other, ip := range w.got { // both families out of one pool, if it can be
		if p := a.poolOf(ip); other != f && ip.IsValid() && slices.Contains(fit, p) {
			fit = slices.Insert(slices.DeleteFunc(fit, func(x *model.Pool) bool { return x == p }), 0, p)
		}
	}
	has := false
	for _, p := range fit {
		for i, r := range p.Ranges {
			if family(r.From) != f {
				continue
			}
			has = true
			if ip := a.free(fmt.Sprint(p.Name, "/", i), r); ip.IsValid() {
				a.take(w, ip)
				return "", ""
			}
		}
	}
	return ReasonFailed, a.noneFree(w, f, has)
}

func (a *allocator) noneFree(w *wish, f string, has bool) string {
	from := "no AddressPool"
	if len(w.pools) > 0 {
		from = "no AddressPool of " + strings.Join(w.pools, ", ")
	}
	switch {
	case len(a.pools) == 0:
		return "the cluster has no AddressPool"
	case !has:
		return fmt.Sprintf("%s has %s addresses to give", from, f)
	}
	return fmt.Sprintf("%s has a free %s address", from, f)
}

// findAsked takes the first address of the family that the Service asks for.
func (a *allocator) findAsked(w *wish, f string) (reason, message string) {
	reason, message = ReasonFailed, fmt.Sprintf("no %s address is asked for, and the Service needs one", f)
	for _, ip := range w.ips {
		if family(ip) != f {
			continue
		}
		p := a.poolOf(ip)
		switch {
		case p == nil:
			reason, message = ReasonNotInPool, fmt.Sprintf("%s is in no AddressPool", ip)
		case p.Problem != "":
			reason, message = ReasonNotInPool, fmt.Sprintf("AddressPool %s of %s is unusable: %s", p.Name, ip, p.Problem)
		case !w.allows(p, ip):
			reason, message = ReasonNotInPool, fmt.Sprintf("%s is in AddressPool %s, and the Service asks for %s", ip, p.Name, strings.Join(w.pools, ", "))
		case a.inside(ip).IsValid():
			reason, message = ReasonNotInPool, fmt.Sprintf("%s is in %s, where the cluster's Pods or ClusterIPs have their addresses", ip, a.inside(ip))
		case !a.may(w, ip):
			reason, message = ReasonTaken, fmt.Sprintf("%s is taken: %s", ip, a.taken[ip])
		default:
			a.take(w, ip)
			return "", ""
		}
		return reason, message
	}
	return reason, message
}

// free is the first address of a range that nobody has. Addresses that end in a zero byte, and IPv4 ones that end in 255,
// are passed over unless the range is nothing else: they are, or are taken for, the network's own (in IPv6 the anycast
// address of routers, RFC 4291) or broadcast.
func (a *allocator) free(key string, r model.AddrRange) netip.Addr {
	ip, seen := a.cursor[key]
	if !seen {
		ip = r.From
	}
	for ; ip.IsValid() && ip.Compare(r.To) <= 0; ip = ip.Next() {
		if a.taken[ip] != "" {
			continue
		}
		if p := a.inside(ip); p.IsValid() {
			ip = model.LastAddr(p)
			continue
		}
		if last := ip.AsSlice()[ip.BitLen()/8-1]; (last == 0 || ip.Is4() && last == 255) && r.From != r.To {
			continue
		}
		break
	}
	a.cursor[key] = ip
	if !ip.IsValid() || ip.Compare(r.To) > 0 {
		a.cursor[key] = r.To.Next()
		return netip.Addr{}
	}
	return ip
}

// inside is the range of Pods or ClusterIPs that the address is in, or the zero Prefix.
func (a *allocator) inside(ip netip.Addr) netip.Prefix {
	if i := slices.IndexFunc(a.barred, func(p netip.Prefix) bool { return p.Contains(ip) }); i >= 0 {
		return a.barred[i]
	}
	return netip.Prefix{}
}

func join(l []netip.Addr) string {
	out := make([]string, len(l))
	for i, a := range l {
		out[i] = a.String()
	}
	return strings.Join(out, ", ")
}
