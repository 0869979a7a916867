package nft

import (
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
)

// elements is what some Services put into the table of one family. Elements of sets are a Service's own; classes and
// hairpin addresses are shared, so they are counted.
type elements struct {
	is4     bool
	sets    map[string]map[string]string
	classes map[class]int
	hairpin map[netip.Addr]int
	ports   int

	buf       knft.Key
	block     strings.Builder
	blockSize int
}

func newElements(f knft.Family, services int) *elements {
	e := &elements{is4: f == knft.IPv4, sets: map[string]map[string]string{}, classes: map[class]int{}, hairpin: map[netip.Addr]int{}}
	if services > 100 {
		e.blockSize = 1 << 16
		e.sets[endpoints] = make(map[string]string, services*4)
	}
	return e
}

// add puts in a Service; nil adds nothing.
func (e *elements) add(s *proxy.Service) {
	if s == nil {
		return
	}
	for _, p := range s.Ports {
		if p.Is4() == e.is4 {
			e.port(p)
		}
	}
}

func (e *elements) put(set string, key, value knft.Key) {
	m := e.sets[set]
	if m == nil {
		m = map[string]string{}
		e.sets[set] = m
	}
	both := e.text(key, value)
	m[both[:len(key)]] = both[len(key):]
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

func (e *elements) port(p *proxy.Port) {
	e.ports++
	proto := protoNumber(p.Proto)
	direct := classOf(p, proxy.ClusterIP, false)
	e.frontend(p.ClusterIP, proto, direct)
	e.put(clusterIPs, knft.Key{}.Addr(p.ClusterIP.Addr()), nil)
	for _, f := range p.External {
		c := classOf(p, f.Kind, f.Guarded)
		e.frontend(f.Addr, proto, c)
		if c.external {
			e.put(external, e.key(f.Addr, proto), knft.Key{}.Addr(p.ClusterIP.Addr()).Proto(proto).Port(p.ClusterIP.Port()))
		}
		if f.Guarded {
			e.guard(f, proto)
		}
	}
	vip := string(e.key(p.ClusterIP, proto))
	e.slots(vip, p.Cluster, 0)
	e.slots(vip, p.Local, localSlots)
	if p.Affinity > 0 {
		e.valid(sticky, vip, p.Cluster)
		e.valid(stickyHere, vip, p.Local)
	}
	for _, a := range p.Hairpin {
		e.hairpin[a]++
	}
}

func (e *elements) frontend(a netip.AddrPort, proto uint8, c class) {
	e.classes[c]++
	e.put(services, e.key(a, proto), c.key(nil))
}

func (e *elements) guard(f proxy.Frontend, proto uint8) {
	for _, src := range f.Sources {
		from := e.key(f.Addr, proto).Addr(src.Addr())
		to := append(knft.Key{}, e.key(f.Addr, proto)...).Addr(last(src))
		e.put(sources, append(append(knft.Key{}, from...), to...), nil)
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

func (e *elements) slots(vip string, to []netip.AddrPort, offset uint32) {
	var value [24]byte
	for i, a := range to[:min(len(to), most)] {
		e.buf = append(e.buf[:0], vip...).Mark(offset + uint32(i))
		e.put(endpoints, e.buf, knft.Key(value[:0]).Addr(a.Addr()).Port(a.Port()))
	}
}

func (e *elements) valid(set, vip string, to []netip.AddrPort) {
	for _, a := range to[:min(len(to), most)] {
		e.buf = append(e.buf[:0], vip...).Addr(a.Addr()).Port(a.Port())
		e.put(set, e.buf, nil)
	}
}

func protoNumber(p flow.Proto) uint8 {
	switch p {
	case flow.UDP:
		return knft.UDP
	case flow.SCTP:
		return knft.SCTP
	}
	return knft.TCP
}
