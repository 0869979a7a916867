package nft

import (
	"fmt"
	"net/netip"
	"strings"
)

// expr runs one expression: a verdict, or whether the rule goes on.
func (m *machine) expr(e Expr) (*Verdict, bool, error) {
	switch e := e.(type) {
	case Meta:
		return nil, m.meta(e), nil
	case MetaSet:
		m.out.Mark = MarkOf(m.get(e.Src, 4))
		return nil, true, nil
	case Payload:
		return nil, m.payload(e), nil
	case Ct:
		return nil, m.ct(e), nil
	case Fib:
		return nil, m.fib(e), nil
	case Numgen:
		m.set(e.Dst, host32(e.Offset+m.draws.draw(max(e.Mod, 1))))
		return nil, true, nil
	case Hash:
		m.hash(e)
		return nil, true, nil
	case Immediate:
		m.set(e.Dst, e.Data)
		return nil, true, nil
	case Bitwise:
		m.bitwise(e)
		return nil, true, nil
	case Cmp:
		return nil, compare(e.Op, strings.Compare(m.get(e.Src, len(e.Data)), e.Data)), nil
	case Lookup:
		return m.lookup(e)
	case Verdict:
		return &e, true, nil
	}
	return m.act(e)
}

func (m *machine) act(e Expr) (*Verdict, bool, error) {
	switch e := e.(type) {
	case NAT:
		return m.nat(e), true, nil
	case Masquerade:
		m.out.Masquerade, m.sealed = true, true
		return &Verdict{Kind: Accept}, true, nil
	case Reject:
		if !e.TCPReset || m.p.Proto == TCP { // a reset answers nothing but TCP
			m.out.Rejected, m.out.Reject = true, e
		}
		return &Verdict{Kind: Drop}, true, nil
	case Dynset:
		if m.table.Sets[e.Set] == nil {
			return nil, false, fmt.Errorf("no set %s", e.Set)
		}
		m.out.Remembered = m.out.Remembered || e.Op != DynDelete
		return nil, true, nil
	case Counter:
		return nil, true, nil
	}
	return nil, false, fmt.Errorf("expression %T %v is not known", e, e)
}

func (m *machine) set(r Reg, data string) {
	b := m.regs[int(r)*4:]
	n := copy(b, data)
	for ; n%4 != 0; n++ {
		b[n] = 0
	}
}

func (m *machine) get(r Reg, n int) string { return string(m.regs[int(r)*4:][:n]) }

// hash computes what the kernel would. What is not known, an unspecified address, may come out as anything.
func (m *machine) hash(e Hash) {
	key, n := m.get(e.Src, int(e.Len)), uint32(0)
	if strings.Trim(key, "\x00") == "" {
		n = m.draws.draw(max(e.Mod, 1))
	} else {
		n = uint32(uint64(JHash([]byte(key), e.Seed)) * uint64(e.Mod) >> 32)
	}
	m.set(e.Dst, host32(e.Offset+n))
}

func compare(op CmpOp, c int) bool {
	switch op {
	case Eq:
		return c == 0
	case Neq:
		return c != 0
	case Lt:
		return c < 0
	case Lte:
		return c <= 0
	case Gt:
		return c > 0
	}
	return c >= 0
}

func (m *machine) meta(e Meta) bool {
	switch e.Key {
	case MetaL4Proto:
		m.set(e.Dst, string([]byte{m.p.Proto}))
	case MetaNFProto:
		f := IPv4
		if m.p.Dst.Addr().Is6() {
			f = IPv6
		}
		m.set(e.Dst, string([]byte{byte(f)}))
	case MetaMark:
		m.set(e.Dst, host32(m.out.Mark))
	case MetaIIFName, MetaOIFName:
		name := m.p.IIF
		if e.Key == MetaOIFName {
			name = m.oif
		}
		b := make([]byte, IfName.Len())
		copy(b, name)
		m.set(e.Dst, string(b))
	default:
		return false
	}
	return true
}

// payload reads the addresses and ports of the packet as it is now.
func (m *machine) payload(e Payload) bool {
	f := IPv4
	if m.out.Dst.Addr().Is6() {
		f = IPv6
	}
	dst := e.Dst
	switch e.Dst = 0; e {
	case SrcAddr(f, 0):
		m.set(dst, Key{}.Addr(m.out.Src.Addr()).String())
	case DstAddr(f, 0):
		m.set(dst, Key{}.Addr(m.out.Dst.Addr()).String())
	case SrcPort(0):
		m.set(dst, Key{}.Port(m.out.Src.Port()).String())
	case DstPort(0):
		m.set(dst, Key{}.Port(m.out.Dst.Port()).String())
	default:
		return false
	}
	return true
}

func (m *machine) ct(e Ct) bool {
	first := m.p.First
	if !first.IsValid() {
		first = m.p.Dst
	}
	switch {
	case e.Key == CtState:
		m.set(e.Dst, host32(StateNew))
	case e.Key == CtStatus:
		status := uint32(0)
		if m.out.DNAT {
			status |= StatusDNAT
		}
		m.set(e.Dst, host32(status))
	case e.Key == CtMark:
		m.set(e.Dst, host32(0))
	case e.Key == CtDstIP && e.Original && first.Addr().Is4(), e.Key == CtDstIP6 && e.Original && first.Addr().Is6():
		m.set(e.Dst, Key{}.Addr(first.Addr()).String())
	case e.Key == CtProtoDst && e.Original:
		m.set(e.Dst, Key{}.Port(first.Port()).String())
	default:
		return false
	}
	return true
}

func (m *machine) fib(e Fib) bool {
	a := m.out.Dst.Addr()
	if e.Source {
		a = m.out.Src.Addr()
	}
	t := AddrTypeUnicast
	switch {
	case m.p.Local != nil && m.p.Local(a):
		t = AddrTypeLocal
	case a.IsMulticast():
		t = AddrTypeMulticast
	}
	m.set(e.Dst, host32(t))
	return true
}

func (m *machine) bitwise(e Bitwise) {
	b := []byte(m.get(e.Src, len(e.Mask)))
	for i := range b {
		b[i] = b[i]&e.Mask[i] ^ e.Xor[i]
	}
	m.set(e.Dst, string(b))
}

func (m *machine) lookup(e Lookup) (*Verdict, bool, error) {
	s := m.table.Sets[e.Set]
	if s == nil {
		return nil, false, fmt.Errorf("no set %s", e.Set)
	}
	val, ok, err := s.find(m.get(e.Src, size(s.Key)))
	switch {
	case err != nil:
		return nil, false, err
	case !e.Map:
		return nil, ok != e.Invert, nil
	case !ok:
		return nil, false, nil
	case e.Verdicts:
		v, known := ParseVerdict(val)
		if !known {
			return nil, false, fmt.Errorf("set %s: verdict %q is not known", e.Set, val)
		}
		return &v, true, nil
	}
	m.set(e.Dst, val)
	return nil, true, nil
}

// find looks a key up as the kernel does: by its bytes, or field by field between the bounds.
func (s *Set) find(key string) (string, bool, error) {
	switch {
	case s.Dynamic:
		return "", false, nil
	case s.ask != nil:
		return s.ask(key)
	case !s.Interval:
		v, ok := s.Elems[key]
		return v, ok, nil
	}
	for k, v := range s.Elems {
		if s.spans(k[:len(key)], k[len(key):], key) {
			return v, true, nil
		}
	}
	return "", false, nil
}

func (s *Set) spans(from, to, key string) bool {
	for _, t := range s.Key {
		n := t.padded()
		if key[:n] < from[:n] || key[:n] > to[:n] {
			return false
		}
		from, to, key = from[n:], to[n:], key[n:]
	}
	return true
}

// nat rewrites an address; the first translation of a hook seals it.
func (m *machine) nat(e NAT) *Verdict {
	n := 4
	if e.Family == IPv6 {
		n = 16
	}
	which := &m.out.Dst
	if e.Source {
		which = &m.out.Src
	}
	to := netip.AddrPortFrom(AddrOf(m.get(e.AddrReg, n)), which.Port())
	if e.HasPort {
		to = netip.AddrPortFrom(to.Addr(), PortOf(m.get(e.PortReg, 2)))
	}
	m.out.DNAT = m.out.DNAT || !e.Source && to != *which
	*which, m.sealed = to, true
	return &Verdict{Kind: Accept}
}
