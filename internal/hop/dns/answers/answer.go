package answers

import (
	"encoding/binary"
	"net/netip"

	"github.com/miekg/dns"
)

// Kind says what became of a query.
type Kind uint8

// The kinds.
const (
	Answered Kind = iota // the answer is complete
	Alias                // a CNAME whose target must be looked up: Chase
	Foreign              // not a name of the cluster
	Odd                  // not an ordinary question: malformed, another class or opcode, ANY, a zone transfer
)

// Result is what Answer says about a query.
type Result struct {
	Kind  Kind
	Type  uint16
	Zone  Zone
	Rcode int // when Answered
}

// Limits of a message by transport.
const maxTCP = 65535

// Answer appends the answer of query to dst[:0]. It does so only for Answered and allocates nothing when dst has room.
// turn is any number: it decides which of several records comes first. By UDP an answer that does not fit what the
// client takes holds as many records as fit, and the bit TC.
func (v *View) Answer(q *Query, dst, msg []byte, tcp bool, turn uint32) ([]byte, Result) {
	if !q.parse(msg) || q.typ == dns.TypeANY || q.typ == dns.TypeAXFR || q.typ == dns.TypeIXFR || q.typ == dns.TypeOPT {
		return nil, Result{Kind: Odd, Type: q.typ}
	}
	n := v.find(q)
	r := Result{Kind: Answered, Type: q.typ, Zone: n.in}
	switch {
	case !n.ours:
		r.Kind = Foreign
		return nil, r
	case !v.synced:
		r.Rcode = dns.RcodeServerFailure
		return failure(dst, msg, q, r.Rcode), r
	case !n.exists:
		r.Rcode = dns.RcodeNameError
	case n.e != nil && n.e.alias != "" && q.typ != dns.TypeCNAME:
		r.Kind = Alias
		return nil, r
	}
	limit := maxTCP
	if !tcp {
		limit = q.size
	}
	return v.write(dst, msg, q, &n, limit, turn), r
}

// failure is an answer without records and without authority.
func failure(dst, msg []byte, q *Query, rcode int) []byte {
	out := append(dst[:0], msg[:q.end]...)
	return finish(out, q, rcode, 0, [3]int{})
}

// write makes the answer: header and question as they came, then records, then OPT.
func (v *View) write(dst, msg []byte, q *Query, n *node, limit int, turn uint32) []byte {
	out := append(dst[:0], msg[:q.end]...)
	if q.edns {
		limit -= optSize
	}
	var counts [3]int
	if !n.exists {
		out, counts[1] = v.appendSOA(out, q, n), 1
		return finish(out, q, dns.RcodeNameError, flagAA, counts)
	}
	if q.typ == dns.TypeSOA && n.e == v.zone.apex {
		out, counts[0] = v.appendSOA(out, q, n), 1
		return finish(out, q, dns.RcodeSuccess, flagAA, counts)
	}
	if n.addr.IsValid() && q.typ == addressType(n.addr) {
		out, counts[0] = v.appendAddress(out, n.addr), 1
		return finish(out, q, dns.RcodeSuccess, flagAA, counts)
	}
	var s *set
	if n.e != nil {
		s = n.e.of(q.typ)
	}
	if s == nil { // the name exists, with other types or only as a parent
		out, counts[1] = v.appendSOA(out, q, n), 1
		return finish(out, q, dns.RcodeSuccess, flagAA, counts)
	}
	flags := uint16(flagAA)
	out, counts[0] = s.appendTo(out, limit, int(turn%uint32(s.n)))
	switch {
	case counts[0] < s.n && limit < maxTCP-optSize:
		flags |= flagTC
	case counts[0] == s.n && s.nextra > 0 && len(out)+len(s.extra) <= limit:
		out, counts[2] = append(out, s.extra...), s.nextra
	}
	return finish(out, q, dns.RcodeSuccess, flags, counts)
}

// appendTo appends the records from first on, around the end, as many as fit; it returns how many. Each record is as
// likely as any other to come first, and to be among those that fit.
func (s *set) appendTo(out []byte, limit, first int) ([]byte, int) {
	if len(out)+len(s.wire) <= limit {
		return append(append(out, s.span(first, s.n)...), s.span(0, first)...), s.n
	}
	count := 0
	for ; count < s.n; count++ {
		i := (first + count) % s.n
		rr := s.span(i, i+1)
		if len(out)+len(rr) > limit {
			break
		}
		out = append(out, rr...)
	}
	return out, count
}

// appendAddress appends a record of the question's name.
func (v *View) appendAddress(out []byte, addr netip.Addr) []byte {
	if addr.Is4() {
		raw := addr.As4()
		return appendRecord(out, toQuestion, dns.TypeA, v.ttl, raw[:])
	}
	raw := addr.As16()
	return appendRecord(out, toQuestion, dns.TypeAAAA, v.ttl, raw[:])
}

// finish writes OPT, flags and counts (answer, authority, additional).
func finish(out []byte, q *Query, rcode int, flags uint16, counts [3]int) []byte {
	if q.edns {
		do := byte(0)
		if q.do {
			do = 0x80
		}
		out = append(out, 0, 0, byte(dns.TypeOPT), MaxUDP>>8, MaxUDP&0xff, 0, 0, do, 0, 0, 0)
		counts[2]++
	}
	flags |= flagQR | flagRA | q.flags&(flagRD|flagCD) | uint16(rcode)
	binary.BigEndian.PutUint16(out[2:], flags)
	for i, c := range counts {
		binary.BigEndian.PutUint16(out[6+2*i:], uint16(c))
	}
	return out
}
