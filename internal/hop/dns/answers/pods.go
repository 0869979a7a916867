package answers

import (
	"net/netip"
	"unsafe"

	"github.com/podway/podway/internal/model"
)

// podKey is a namespace, as its label in wire format, and an address that a Pod in it has.
type podKey struct {
	space string
	addr  netip.Addr
}

// applyPods brings the addresses of Pods in line with the snapshot; only where names of Pods are verified.
func (v *View) applyPods(s *model.Snapshot, c model.Change, first bool) {
	if !v.verified {
		return
	}
	if c.All || first {
		all := map[podKey]int{}
		for _, p := range s.Pods.All() {
			eachPodKey(p, func(k podKey) { all[k]++ })
		}
		v.podAddrs, v.podsOf = model.MapOf(all), s.Pods
		return
	}
	for _, name := range c.Pods {
		eachPodKey(v.podsOf.At(name), func(k podKey) {
			if n := v.podAddrs.At(k); n > 1 {
				v.podAddrs = v.podAddrs.Set(k, n-1)
			} else {
				v.podAddrs = v.podAddrs.Delete(k)
			}
		})
		eachPodKey(s.Pods.At(name), func(k podKey) { v.podAddrs = v.podAddrs.Set(k, v.podAddrs.At(k)+1) })
	}
	v.podsOf = s.Pods
}

// eachPodKey calls f for every address by which a Pod can be asked for; one that has ended has none.
func eachPodKey(p *model.Pod, f func(podKey)) {
	if p == nil || p.Terminal() {
		return
	}
	space := string(appendLabel(nil, p.Name.Namespace))
	for _, a := range p.Addrs {
		f(podKey{space, a.Unmap()})
	}
}

// findPod looks up a name with front labels in front of pod: the address with dashes, and a namespace.
func (v *View) findPod(q *Query, front int) node {
	if front == 0 {
		return node{exists: true}
	}
	space := q.name[q.starts[front-1] : int(q.starts[front-1])+1+len(q.label(front-1))]
	if front == 1 {
		return node{exists: true}
	}
	if front > 2 {
		return node{}
	}
	addr, ok := q.podAddress(q.label(0))
	if !ok || v.verified && !v.hasPod(space, addr) {
		return node{}
	}
	return node{exists: true, addr: addr}
}

// hasPod reports whether a Pod of a namespace has an address. The key is only borrowed for the look-up.
func (v *View) hasPod(space []byte, addr netip.Addr) bool {
	if v.from == nil {
		return v.podAddrs.At(podKey{unsafe.String(unsafe.SliceData(space), len(space)), addr}) > 0
	}
	found := false
	for _, p := range v.from.Pods.All() {
		eachPodKey(p, func(k podKey) { found = found || k == podKey{string(space), addr} })
	}
	return found
}

// podAddress reads 10-244-1-5 or fd00--1-5.
func (q *Query) podAddress(label []byte) (netip.Addr, bool) {
	if a, ok := dashed4(label); ok {
		return a, true
	}
	for _, c := range label { // nothing else can be an address: ParseAddr makes errors, which cost
		if c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return netip.Addr{}, false
		}
	}
	b := q.scratch[:copy(q.scratch[:], label)]
	for i, c := range b {
		if c == '-' {
			b[i] = ':'
		}
	}
	a, err := netip.ParseAddr(unsafe.String(unsafe.SliceData(b), len(b)))
	return a, err == nil && a.Is6() && !a.Is4In6()
}

// dashed4 reads four decimal numbers with dashes between.
func dashed4(label []byte) (netip.Addr, bool) {
	var raw [4]byte
	n, begin := 0, 0
	for i := 0; i <= len(label); i++ {
		if i < len(label) && label[i] != '-' {
			continue
		}
		d, ok := octet(label[begin:i])
		if !ok || n == len(raw) {
			return netip.Addr{}, false
		}
		raw[n], begin = d, i+1
		n++
	}
	return netip.AddrFrom4(raw), n == len(raw)
}
