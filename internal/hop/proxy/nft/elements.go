package nft

import (
	"net/netip"
	"strings"

	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/maglev"
)

// elements is what some Services put into the table of one family. Elements of most sets are a Service's own; classes, and
// the addresses in the sets of addresses, are shared, so they are counted.
type elements struct {
	is4     bool
	sets    map[string]map[string]string
	lists   map[string][]knft.Elem // instead of sets, when the table is only to be made
	sizes   map[string]int         // of the sets
	classes map[class]int
	shared  map[string]map[netip.Addr]int // of clusterIPs and hairpin
	ports   int
	words   map[class]uint32 // numbers of the classes, when not all have the one they would like
	known   map[class]uint32 // numbers that were looked up before

	buf       knft.Key
	block     strings.Builder
	blockSize int
}

func newElements(f knft.Family, services int) *elements {
	e := &elements{is4: f == knft.IPv4, sets: map[string]map[string]string{}, sizes: map[string]int{}, classes: map[class]int{},
		shared: map[string]map[netip.Addr]int{clusterIPs: {}, hairpin: {}}, known: map[class]uint32{}}
	if services > 100 {
		e.blockSize = 1 << 16
	}
	return e
}

// hold makes room for the endpoints of many Services: in maps, or in lists.
func (e *elements) hold(services int, asList bool) *elements {
	switch {
	case asList:
		e.lists = map[string][]knft.Elem{"services": make([]knft.Elem, 0, services), endpoints: make([]knft.Elem, 0, services*4)}
	case services > 100:
		e.sets[endpoints] = make(map[string]string, services*8)
	}
	return e
}

// word is the number of a class.
func (e *elements) word(c class) uint32 {
	if w, ok := e.words[c]; ok {
		return w
	}
	w, ok := e.known[c]
	if !ok {
		w = c.word()
		e.known[c] = w
	}
	return w
}

// add puts in a Service; nil adds nothing.
func (e *elements) add(s *proxy.Service) {
	if s == nil {
		return
	}
	for i, p := range s.Ports {
		if p.Is4() == e.is4 {
			e.port(p, s.Ports[:i])
		}
	}
}

func (e *elements) put(set string, key, value knft.Key) {
	m := e.sets[set]
	if m == nil && e.lists == nil {
		m = map[string]string{}
		e.sets[set] = m
	}
	both := e.text(key, value)
	if e.lists != nil {
		e.lists[set] = append(e.lists[set], knft.Elem{Key: both[:len(key)], Value: both[len(key):]})
		e.sizes[set]++
		return
	}
	m[both[:len(key)]] = both[len(key):]
	e.sizes[set]++
}

// text copies bytes into a string. Strings are cut from blocks, because a full render has hundreds of thousands.
func (e *elements) text(key, value knft.Key) string {
	n := len(key) + len(value)
	if e.block.Cap()-e.block.Len() < n {
		e.block = strings.Builder{}
		e.block.Grow(max(e.blockSize, n))
	}
	at := e.block.Len()
	e.block.Write(key)
	e.block.Write(value)
	return e.block.String()[at:]
}

// key begins a key in the shared buffer: it is copied when it is put.
func (e *elements) key(a netip.AddrPort, proto uint8) knft.Key {
	e.buf = e.buf[:0].Addr(a.Addr()).Proto(proto).Port(a.Port())
	return e.buf
}

// port puts in a port; before are those of the Service that come before it.
func (e *elements) port(p *proxy.Port, before []*proxy.Port) {
	e.ports++
	proto, owner := p.Proto.Number(), uint32(0)
	if p.Affinity > 0 {
		owner = ownerOf(p, before)
	}
	e.shared[clusterIPs][p.ClusterIP.Addr()]++
	e.frontend(p, string(e.key(p.ClusterIP, proto)), classOf(p, proxy.ClusterIP, false), owner)
	hasNodePort := false
	for _, f := range p.External {
		if f.Kind == proxy.NodePort {
			if hasNodePort {
				continue
			}
			hasNodePort = true
			f.Addr = netip.AddrPortFrom(unspecified(e.family()), f.Addr.Port())
		}
		front := string(e.key(f.Addr, proto))
		e.frontend(p, front, classOf(p, f.Kind, f.Guarded), owner)
		if f.Guarded {
			e.guard(front, f.Sources)
		}
	}
	for _, a := range p.Hairpin {
		e.shared[hairpin][a]++
	}
}

func (e *elements) family() knft.Family {
	if e.is4 {
		return knft.IPv4
	}
	return knft.IPv6
}

func unspecified(f knft.Family) netip.Addr {
	if f == knft.IPv4 {
		return netip.IPv4Unspecified()
	}
	return netip.IPv6Unspecified()
}

// ownerOf numbers those ports of a Service between which a client keeps its endpoint: all that have an endpoint's address
// in common, which mostly are all. Two Services with one number share what is remembered of a client, which then moves it
// to and fro; where it may go does not depend on it.
func ownerOf(p *proxy.Port, before []*proxy.Port) uint32 {
	first := p
	for i := len(before) - 1; i >= 0; i-- {
		if b := before[i]; b.Is4() == p.Is4() && meet(b.Serving, first.Serving) {
			first = b
		}
	}
	return hash(first.Service.String() + " " + first.Name + " " + string(first.Proto))
}

// meet reports whether two lists, ordered, have an address in common.
func meet(a, b []netip.AddrPort) bool {
	for len(a) > 0 && len(b) > 0 {
		switch c := a[0].Addr().Compare(b[0].Addr()); {
		case c == 0:
			return true
		case c < 0:
			a = a[1:]
		default:
			b = b[1:]
		}
	}
	return false
}

// frontend puts in one frontend and its own list of endpoints: looking the list up by what the packet says saves a lookup
// for each connection and costs memory only for Services with several frontends.
func (e *elements) frontend(p *proxy.Port, front string, c class, owner uint32) {
	e.classes[c]++
	var value [4]byte
	e.put(services, knft.Key(front), knft.Key(value[:0]).Mark(e.word(c)))
	if c.affinity > 0 {
		e.put(owners, knft.Key(front), knft.Key(value[:0]).Mark(owner))
	}
	if c.cluster > 0 {
		e.slots(front, p.Cluster, 0, c)
	}
	if c.here > 0 {
		e.slots(front, p.Local, localSlots, c)
	}
}

func (e *elements) guard(front string, ps []netip.Prefix) {
	for _, p := range ps {
		e.buf = append(append(e.buf[:0], front...).Addr(p.Addr()), front...).Addr(last(p))
		e.put(sources, e.buf, nil)
	}
}

// last is the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}

// slots numbers the endpoints of a frontend. With affinity a slot leads to a token, and the token to the endpoint: slots
// change when other endpoints come and go, tokens do not.
func (e *elements) slots(front string, to []netip.AddrPort, offset uint32, c class) {
	to = to[:min(len(to), most)]
	var table []uint16
	if c.maglev {
		table = maglev.Table(to)
	}
	at := func(slot int) int {
		if table != nil {
			return int(table[slot])
		}
		return slot
	}
	n := max(len(to), len(table))
	var value [20]byte
	target := func(a netip.AddrPort) knft.Key { return knft.Key(value[:0]).Addr(a.Addr()).Port(a.Port()) }
	if c.affinity == 0 {
		for slot := range n {
			e.buf = append(e.buf[:0], front...).Mark(offset + uint32(slot))
			e.put(endpoints, e.buf, target(to[at(slot)]))
		}
		return
	}
	ts, byToken := tokensOf(to), sticky
	if offset == localSlots {
		byToken = stickyLocal
	}
	for slot := range n {
		e.buf = append(e.buf[:0], front...).Mark(offset + uint32(slot))
		e.put(tokens, e.buf, knft.Key(value[:0]).Mark(ts[at(slot)]))
	}
	for i, a := range to {
		e.buf = append(e.buf[:0], front...).Mark(ts[i])
		e.put(byToken, e.buf, target(a))
	}
}

// tokensOf gives each endpoint of a list a number that follows from its address alone, so that it is the same at every
// port; of several endpoints with one address, from their order too. Should two have the same number, the second takes the
// next free one.
func tokensOf(to []netip.AddrPort) []uint32 {
	out, taken := make([]uint32, len(to)), make(map[uint32]bool, len(to))
	var b knft.Key
	for i, a := range to {
		b = b[:0].Addr(a.Addr())
		for k := i - 1; k >= 0 && to[k].Addr() == a.Addr(); k-- {
			b = append(b, '+')
		}
		t := hash(string(b))
		for taken[t] {
			t++
		}
		out[i], taken[t] = t, true
	}
	return out
}
