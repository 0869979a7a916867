package answers

import (
	"bytes"
	"encoding/binary"

	"github.com/miekg/dns"
)

// MaxUDP is the largest answer sent by UDP, whatever the client offers: it fits every path (DNS flag day 2020).
const MaxUDP = 1232

// minUDP is the size that every client takes (RFC 1035).
const minUDP = 512

// optSize is the size of an OPT record without options.
const optSize = 11

// Query is the working memory of Answer: a parsed question. A goroutine keeps one, so that answering allocates nothing.
// Only what an ordinary stub resolver sends is parsed.
type Query struct {
	flags  uint16
	name   [255]byte // wire format, lower case
	n      int       // its length
	starts [128]uint8
	labels int
	typ    uint16
	class  uint16
	end    int // of the question section in the message
	edns   bool
	do     bool
	size   int // largest UDP answer the client takes

	scratch [64]byte
}

// The parts of the flags word.
const (
	flagQR, flagAA, flagTC, flagRD, flagRA, flagCD = 1 << 15, 1 << 10, 1 << 9, 1 << 8, 1 << 7, 1 << 4
	opcodeMask                                     = 0xf << 11
)

// Asked is an ordinary question that has been parsed: what those need who answer it from elsewhere than a View.
type Asked struct {
	Name  []byte // wire format, lower case; borrowed from the Query
	Type  uint16 // the class is IN
	Flags uint16 // the header's second word
	End   int    // of the question in the message
	Limit int    // bytes that an answer may have, OPT included
	EDNS  bool
	DO    bool
}

// Asked returns the question of the last Answer whose Kind was not Odd. It is valid until the next.
func (q *Query) Asked(tcp bool) Asked {
	a := Asked{Name: q.name[:q.n], Type: q.typ, Flags: q.flags, End: q.end, Limit: q.size, EDNS: q.edns, DO: q.do}
	if tcp {
		a.Limit = maxTCP
	}
	return a
}

// parse reads one question with at most an OPT record behind it; false when the message is anything else.
func (q *Query) parse(msg []byte) bool {
	q.n, q.labels, q.typ, q.edns, q.do = 0, 0, 0, false, false
	if len(msg) < headerSize {
		return false
	}
	q.flags = binary.BigEndian.Uint16(msg[2:])
	counts := binary.BigEndian.Uint64(msg[4:])
	if q.flags&(flagQR|flagTC|opcodeMask) != 0 || counts>>48 != 1 || counts&0xffff_ffff_0000 != 0 || counts&0xffff > 1 {
		return false
	}
	at, ok := q.parseName(msg)
	if !ok || len(msg) < at+4 {
		return false
	}
	q.typ, q.class, q.end = binary.BigEndian.Uint16(msg[at:]), binary.BigEndian.Uint16(msg[at+2:]), at+4
	q.size = minUDP
	return q.class == dns.ClassINET && (counts&0xffff == 0 || q.parseOPT(msg[q.end:]))
}

// parseName reads the question's name, which stands first in the message and so cannot be compressed.
func (q *Query) parseName(msg []byte) (int, bool) {
	at := headerSize
	for {
		if at >= len(msg) || q.n >= len(q.name) {
			return 0, false
		}
		size := int(msg[at])
		if size == 0 {
			q.name[q.n] = 0
			q.n++
			return at + 1, true
		}
		if size > 63 || at+1+size > len(msg) || q.n+1+size >= len(q.name) {
			return 0, false
		}
		q.starts[q.labels] = uint8(q.n)
		q.labels++
		q.name[q.n] = byte(size)
		for i, c := range msg[at+1 : at+1+size] {
			q.name[q.n+1+i] = lower(c)
		}
		q.n += 1 + size
		at += 1 + size
	}
}

// parseOPT reads an OPT record of version 0; options are skipped, as RFC 6891 wants of those that one does not know.
func (q *Query) parseOPT(rr []byte) bool {
	if len(rr) < optSize || rr[0] != 0 || binary.BigEndian.Uint16(rr[1:]) != dns.TypeOPT || rr[6] != 0 {
		return false
	}
	if optSize+int(binary.BigEndian.Uint16(rr[9:])) > len(rr) {
		return false
	}
	q.edns, q.do = true, rr[7]&0x80 != 0
	q.size = UDPSize(binary.BigEndian.Uint16(rr[3:]))
	return true
}

// UDPSize is the largest answer for a client that offers the given EDNS size.
func UDPSize(offered uint16) int { return min(max(int(offered), minUDP), MaxUDP) }

// label returns label i without its length, counted from the left.
func (q *Query) label(i int) []byte {
	at := int(q.starts[i])
	return q.name[at+1 : at+1+int(q.name[at])]
}

// from returns the name from label i on, in wire format.
func (q *Query) from(i int) []byte {
	if i == q.labels {
		return q.name[q.n-1 : q.n]
	}
	return q.name[q.starts[i]:q.n]
}

// under reports whether the name is zone or below it, and how many labels stand in front of the zone's.
func (q *Query) under(zone []byte, labels int) (int, bool) {
	front := q.labels - labels
	return front, front >= 0 && bytes.Equal(q.from(front), zone)
}
