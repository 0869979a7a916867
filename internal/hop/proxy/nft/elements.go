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
	words   map[class]uint32 // numbers of the classes, when not all have the one they would like
	known   map[class]uint32 // numbers that were looked up before

	buf       knft.Key
	block     strings.Builder
	blockSize int
}

func newElements(f knft.Family, services int) *elements {
	e := &elements{is4: f == knft.IPv4, sets: map[string]map[string]string{}, classes: map[class]int{}, hairpin: map[netip.Addr]int{}, known: map[class]uint32{}}
	if services > 100 {
		e.blockSize = 1 << 16
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
	e.put(clusterIPs, knft.Key{}.Addr(p.ClusterIP.Addr()), nil)
	e.frontend(p, string(e.key(p.ClusterIP, proto)), classOf(p, proxy.ClusterIP, false))
	for _, f := range p.External {
		front := string(e.key(f.Addr, proto))
		e.frontend(p, front, classOf(p, f.Kind, f.Guarded))
		if f.Guarded {
			e.guard(front, f.Sources)
		}
	}
	for _, a := range p.Hairpin {
		e.hairpin[a]++
	}
}

// frontend puts in one frontend and its own list of endpoints: looking the list up by what the packet says saves a lookup
// for each connection and costs memory only for Services with several frontends.
func (e *elements) frontend(p *proxy.Port, front string, c class) {
	e.classes[c]++
	var value [4]byte
	e.put(services, knft.Key(front), knft.Key(value[:0]).Mark(e.word(c)))
	if c.cluster > 0 {
		e.slots(front, p.Cluster, 0, c.affinity > 0)
	}
	if c.here > 0 {
		e.slots(front, p.Local, localSlots, c.affinity > 0)
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
func (e *elements) slots(front string, to []netip.AddrPort, offset uint32, withTokens bool) {
	var value [28]byte
	to = to[:min(len(to), most)]
	var ts []uint32
	if withTokens {
		ts = tokensOf(to, offset)
	}
	for i, a := range to {
		target := knft.Key(value[:0]).Addr(a.Addr()).Port(a.Port())
		e.buf = append(e.buf[:0], front...).Mark(offset + uint32(i))
		if !withTokens {
			e.put(endpoints, e.buf, target)
			continue
		}
		e.put(tokens, e.buf, knft.Key(value[len(target):len(target)]).Mark(ts[i]))
		e.buf = append(e.buf[:0], front...).Mark(ts[i])
		e.put(sticky, e.buf, target)
	}
}

// tokensOf gives each endpoint of a list a number that follows from its address; of two with the same, the
// second takes the next free one. Lists with different offsets have different numbers for an endpoint.
func tokensOf(to []netip.AddrPort, offset uint32) []uint32 {
	out, taken := make([]uint32, len(to)), make(map[uint32]bool, len(to))
	var b knft.Key
	for i, a := range to {
		b = b[:0].Addr(a.Addr()).Port(a.Port())
		b = append(b, byte(offset>>16))
		t := hash(string(b)) &^ 1
		if offset > 0 {
			t |= 1
		}
		for taken[t] {
			t += 2
		}
		out[i], taken[t] = t, true
	}
	return out
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
