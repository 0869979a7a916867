package model

import "net/netip"

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
