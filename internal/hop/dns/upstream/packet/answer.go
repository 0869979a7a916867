// Package packet keeps another server's answer as it goes out to clients: the records in wire format, compressed against
// the client's own question, with the places of what differs from client to client. It is pure: it knows no sockets, no
// cache and no time but the age it is told.
package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

const headerSize = 12

// The bits of a header's second word.
const (
	FlagQR, FlagTC, FlagRD = 1 << 15, 1 << 9, 1 << 8
	FlagRA, FlagAD, FlagCD = 1 << 7, 1 << 5, 1 << 4
)

// The sections behind the question.
const (
	answer = iota
	authority
	additional
)

// Answer is an answer without its question. It is never written to once it is made.
type Answer struct {
	Rcode     int  // the header's four bits
	Truncated bool // the server itself had no more
	Secure    bool // the server vouches for it (AD)

	body   []byte    // the three sections, OPT left out; names point into the question and each other
	ttls   []uint16  // where the records' times to live stand in body, in their order
	counts [3]uint16 // records of each section
	ends   [3]uint16 // where in body each section ends
	turns  set
}

// set is addresses of one name that stand in a row and may change places: n records of the same size from start on.
type set struct{ start, size, n uint16 }

// errQuestion says that a message cannot be kept because it answers no single question.
var errQuestion = errors.New("packet: not one question")

// New keeps a message whose question is that of the client, whatever its case. It changes the spelling of owner names in m.
func New(m *dns.Msg) (*Answer, error) {
	if len(m.Question) != 1 {
		return nil, errQuestion
	}
	plain := dns.Msg{Question: m.Question, Answer: m.Answer, Ns: m.Ns, Extra: withoutOPT(m.Extra), Compress: true}
	respell(&plain)
	wire, err := plain.Pack()
	if err != nil {
		return nil, fmt.Errorf("packet: %w", err)
	}
	if len(wire) > dns.MaxMsgSize-optSize {
		return nil, fmt.Errorf("packet: %d bytes are too many", len(wire))
	}
	// A record with less data than its type has is read, and written as one that nobody can read.
	if err := new(dns.Msg).Unpack(wire); err != nil {
		return nil, fmt.Errorf("packet: %w", err)
	}
	start, ok := skipName(wire, headerSize)
	if !ok {
		return nil, errQuestion
	}
	start += 4
	a := &Answer{Rcode: m.Rcode & 0xf, Truncated: m.Truncated, Secure: m.AuthenticatedData, body: wire[start:len(wire):len(wire)]}
	a.counts = [3]uint16{uint16(len(plain.Answer)), uint16(len(plain.Ns)), uint16(len(plain.Extra))}
	return a, a.measure(wire, start)
}

func withoutOPT(in []dns.RR) []dns.RR {
	var out []dns.RR
	for _, rr := range in {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}

// respell gives owner names the spelling that they have in the question or in a record before, so that each becomes a
// pointer: the client's spelling of the question is then everybody's, and addresses of one name have one size.
func respell(m *dns.Msg) {
	spelling := map[string]string{strings.ToLower(m.Question[0].Name): m.Question[0].Name}
	learn := func(name string) {
		if k := strings.ToLower(name); spelling[k] == "" {
			spelling[k] = name
		}
	}
	for _, section := range [3][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			h := rr.Header()
			learn(h.Name)
			h.Name = spelling[strings.ToLower(h.Name)]
			if c, ok := rr.(*dns.CNAME); ok {
				learn(c.Target)
			}
		}
	}
}

// measure finds the records in the packed message.
func (a *Answer) measure(wire []byte, start int) error {
	at := start
	for section, n := range a.counts {
		for range n {
			owner := at
			ttl, ok := skipName(wire, at)
			ttl += 4
			if !ok || ttl+6 > len(wire) {
				return errors.New("packet: a record is cut short")
			}
			at = ttl + 6 + int(binary.BigEndian.Uint16(wire[ttl+4:]))
			if at > len(wire) {
				return errors.New("packet: a record is cut short")
			}
			a.ttls = append(a.ttls, uint16(ttl-start))
			if section == answer {
				a.turns = a.turns.with(wire, owner, ttl, at, start)
			}
		}
		a.ends[section] = uint16(at - start)
	}
	if at != len(wire) {
		return errors.New("packet: bytes behind the last record")
	}
	return nil
}

// with is the set after one more record of the answer section. The first set with two addresses stays. Only records whose
// whole owner is a pointer count: nothing points into them, so they may stand in any order.
func (s set) with(wire []byte, owner, ttl, end, start int) set {
	typ, pointer := binary.BigEndian.Uint16(wire[ttl-4:]), ttl-4-owner == 2 && wire[owner]&0xc0 == 0xc0
	if !pointer || typ != dns.TypeA && typ != dns.TypeAAAA {
		if s.n < 2 {
			return set{}
		}
		return s
	}
	first := start + int(s.start)
	if s.n > 0 && first+int(s.n)*int(s.size) == owner && int(s.size) == end-owner && string(wire[owner:ttl]) == string(wire[first:first+ttl-owner]) {
		s.n++
		return s
	}
	if s.n > 1 {
		return s
	}
	return set{uint16(owner - start), uint16(end - owner), 1}
}

// skipName returns where the name at a place ends; pointers are not followed.
func skipName(wire []byte, at int) (int, bool) {
	for at < len(wire) {
		switch size := int(wire[at]); {
		case size == 0:
			return at + 1, true
		case size >= 0xc0:
			return at + 2, at+2 <= len(wire)
		case size > 63:
			return 0, false
		default:
			at += 1 + size
		}
	}
	return 0, false
}

// In is a copy of the answer that keeps its bytes in the memory given, or elsewhere when that has not enough room.
func (a *Answer) In(body []byte, ttls []uint16) Answer {
	out := *a
	out.body, out.ttls = append(body, a.body...), append(ttls, a.ttls...)
	return out
}

// Room is what the answer has left of memory that it was given by In.
func (a *Answer) Room(given []byte) []byte {
	if len(a.body) > cap(given) {
		return given
	}
	return given[len(a.body):len(a.body)]
}

// Size is how many bytes of memory the answer takes, about.
func (a *Answer) Size() int { return len(a.body) + 2*len(a.ttls) + 280 }

// Failure is an answer without records.
func Failure(rcode int) *Answer { return &Answer{Rcode: rcode & 0xf} }
