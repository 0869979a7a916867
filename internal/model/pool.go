package model

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// LoadBalancerClass is the spec.loadBalancerClass of Services that are podway's; those without a class are too.
const LoadBalancerClass = "podway.io/lb"

// Pool is an AddressPool (podway.io/v1alpha1): addresses that Services of type LoadBalancer may get.
type Pool struct {
	Name       string
	Ranges     []AddrRange
	AutoAssign bool   // give addresses to Services that did not ask for this pool
	Problem    string // why the object is unusable, "" = fine; an unusable pool gives nothing
}

// AddrRange is From..To, both included and of one family.
type AddrRange struct{ From, To netip.Addr }

// Contains reports whether a is in the range.
func (r AddrRange) Contains(a netip.Addr) bool {
	return r.From.BitLen() == a.BitLen() && r.From.Compare(a) <= 0 && a.Compare(r.To) <= 0
}

// LastAddr is the last address of a prefix: of an IPv4 network its broadcast address.
func LastAddr(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// Overlaps reports whether the range and the prefix have an address in common.
func (r AddrRange) Overlaps(p netip.Prefix) bool {
	first, last := p.Masked().Addr(), LastAddr(p)
	return first.BitLen() == r.From.BitLen() && first.Compare(r.To) <= 0 && r.From.Compare(last) <= 0
}

// Conflict says why the pool, or some address of it, cannot be used; "" = nothing is wrong. pods and services are ranges of
// the cluster beside those of its Nodes and ServiceCIDRs. Of two pools with the same addresses the second by name has it.
func (p *Pool) Conflict(s *Snapshot, pods, services []netip.Prefix) string {
	if p.Problem != "" {
		return p.Problem
	}
	for _, r := range p.Ranges {
		for _, c := range PodRanges(s, pods) {
			if r.Overlaps(c) {
				return fmt.Sprintf("%s overlaps %s, a range of Pods: these addresses are not given out", r, c)
			}
		}
		for _, c := range ServiceRanges(s, services) {
			if r.Overlaps(c) {
				return fmt.Sprintf("%s overlaps %s, a range of ClusterIPs: these addresses are not given out", r, c)
			}
		}
		for _, n := range Sorted(s.Nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) }) {
			if i := slices.IndexFunc(n.Addrs, r.Contains); i >= 0 {
				return fmt.Sprintf("%s has %s, the address of node %s: it is not given out", r, n.Addrs[i], n.Name)
			}
		}
		for _, o := range Sorted(s.Pools, func(a, b *Pool) int { return strings.Compare(a.Name, b.Name) }) {
			for _, other := range o.Ranges {
				if o.Name < p.Name && r.From.BitLen() == other.From.BitLen() && r.From.Compare(other.To) <= 0 && other.From.Compare(r.To) <= 0 {
					return fmt.Sprintf("%s overlaps %s of AddressPool %s: an address there counts in both", r, other, o.Name)
				}
			}
		}
	}
	return ""
}

// PodRanges are the nodes' ranges of Pods and others that are known.
func PodRanges(s *Snapshot, others []netip.Prefix) []netip.Prefix {
	out := slices.Clone(others)
	for _, n := range Sorted(s.Nodes, func(a, b *Node) int { return strings.Compare(a.Name, b.Name) }) {
		out = append(out, n.PodCIDRs...)
	}
	return out
}

// ServiceRanges are the ranges of the ServiceCIDR objects and others that are known.
func ServiceRanges(s *Snapshot, others []netip.Prefix) []netip.Prefix {
	out := slices.Clone(others)
	for _, c := range Sorted(s.ServiceCIDRs, func(a, b *ServiceCIDR) int { return strings.Compare(a.Name, b.Name) }) {
		out = append(out, c.CIDRs...)
	}
	return out
}

// String is "From-To", or the one address.
func (r AddrRange) String() string {
	if r.From == r.To {
		return r.From.String()
	}
	return r.From.String() + "-" + r.To.String()
}
