package answers

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/miekg/dns"
)

// headerSize is the size of a message's header; the question, and with it the name asked for, begins there.
const headerSize = 12

// toQuestion is a compression pointer to the name in the question: the owner of every record that answers it, in the
// very case in which it was asked.
var toQuestion = []byte{0xc0, headerSize}

// entry is one name that exists. Without sets it is an empty non-terminal: something exists below it.
type entry struct {
	sets  []set
	alias string // target of a CNAME in presentation format
}

func newEntry(sets ...set) *entry {
	e := &entry{}
	for _, s := range sets {
		if s.n > 0 {
			e.sets = append(e.sets, s)
		}
	}
	return e
}

// of returns the records of a type, or nil.
func (e *entry) of(typ uint16) *set {
	for i := range e.sets {
		if e.sets[i].typ == typ {
			return &e.sets[i]
		}
	}
	return nil
}

func (e *entry) equal(o *entry) bool {
	return e.alias == o.alias && slices.EqualFunc(e.sets, o.sets, func(a, b set) bool { return a.equal(&b) })
}

// set is the records of one name and type as they stand in an answer: back to back, owned by the question's name.
type set struct {
	typ    uint16
	n      int
	wire   []byte
	ends   []int // end of each record in wire; nil when all are of one size
	extra  []byte
	nextra int // records for the additional section, in extra
}

func (s *set) equal(o *set) bool {
	return s.typ == o.typ && s.n == o.n && s.nextra == o.nextra && bytes.Equal(s.wire, o.wire) && bytes.Equal(s.extra, o.extra)
}

// add appends a record.
func (s *set) add(typ uint16, ttl uint32, rdata []byte) {
	before := len(s.wire)
	s.wire = appendRecord(s.wire, toQuestion, typ, ttl, rdata)
	if s.ends == nil && s.n > 0 && len(s.wire)-before != before/s.n { // the first of another size
		for i := 1; i <= s.n; i++ {
			s.ends = append(s.ends, before/s.n*i)
		}
	}
	if s.ends != nil {
		s.ends = append(s.ends, len(s.wire))
	}
	s.typ, s.n = typ, s.n+1
}

// addExtra appends an address record to the additional section; owner is in wire format, compressed or not.
func (s *set) addExtra(owner []byte, addr netip.Addr, ttl uint32) {
	s.nextra++
	s.extra = appendRecord(s.extra, owner, addressType(addr), ttl, addr.AsSlice())
}

// span returns the records from..to of the set, as bytes.
func (s *set) span(from, to int) []byte {
	return s.wire[s.offset(from):s.offset(to)]
}

func (s *set) offset(i int) int {
	if i == 0 {
		return 0
	}
	if s.ends != nil {
		return s.ends[i-1]
	}
	return len(s.wire) / s.n * i
}

func appendRecord(dst, owner []byte, typ uint16, ttl uint32, rdata []byte) []byte {
	dst = append(dst, owner...)
	dst = binary.BigEndian.AppendUint16(dst, typ)
	dst = binary.BigEndian.AppendUint16(dst, dns.ClassINET)
	dst = binary.BigEndian.AppendUint32(dst, ttl)
	dst = binary.BigEndian.AppendUint16(dst, uint16(len(rdata)))
	return append(dst, rdata...)
}

func addressType(a netip.Addr) uint16 {
	if a.Is4() {
		return dns.TypeA
	}
	return dns.TypeAAAA
}

// addressSets makes the A and AAAA sets of addresses.
func addressSets(addrs []netip.Addr, ttl uint32) []set {
	sets := make([]set, 2)
	for _, a := range addrs {
		i := 0
		if !a.Is4() {
			i = 1
		}
		sets[i].add(addressType(a), ttl, a.AsSlice())
	}
	return sets
}
