package packet

import (
	"encoding/binary"

	"github.com/miekg/dns"
)

// optSize is the size of an OPT record without options.
const optSize = 11

// Client is whom an answer is written for.
type Client struct {
	Query []byte // header and question of the message that asked
	Limit int    // bytes that the answer may have, OPT included
	EDNS  bool
	DO    bool
	AD    bool // the client wants to know whether the answer is secure (RFC 6840 5.7)
	Offer int  // the EDNS size that we offer
}

// Life is the time to live that a client is told.
type Life struct {
	Age   uint32 // seconds since the answer came
	Stale uint32 // not 0: the time is over, and every record has this many seconds (RFC 8767)
}

// AppendTo appends to dst[:0] the answer for a client; it allocates nothing when dst has room. turn is any number: it
// decides which of several addresses comes first. What does not fit goes in this order: the additional section, the
// authority of an answer with records, then records, and only these set TC (RFC 2181 9).
func (a *Answer) AppendTo(dst []byte, c Client, l Life, turn uint32) []byte {
	out := append(dst[:0], c.Query...)
	room := c.Limit - len(out)
	if c.EDNS {
		room -= optSize
	}
	base := len(out)
	out, counts, cut := a.appendRecords(out, room, turn)
	records := int(counts[answer]) + int(counts[authority]) + int(counts[additional])
	age(out[base:], a.ttls[:records], l)
	flags := FlagQR | FlagRA | binary.BigEndian.Uint16(c.Query[2:])&(FlagRD|FlagCD) | uint16(a.Rcode)
	if cut || a.Truncated {
		flags |= FlagTC
	}
	if a.Secure && (c.AD || c.DO) {
		flags |= FlagAD
	}
	if c.EDNS {
		do := byte(0)
		if c.DO {
			do = 0x80
		}
		out = append(out, 0, 0, byte(dns.TypeOPT), byte(c.Offer>>8), byte(c.Offer), 0, 0, do, 0, 0, 0)
		counts[additional]++
	}
	binary.BigEndian.PutUint16(out[2:], flags)
	binary.BigEndian.PutUint16(out[4:], 1)
	for i, n := range counts {
		binary.BigEndian.PutUint16(out[6+2*i:], n)
	}
	return out
}

// appendRecords appends as many records as room has bytes for; cut says that some are missing that the client needs.
func (a *Answer) appendRecords(out []byte, room int, turn uint32) (_ []byte, counts [3]uint16, cut bool) {
	switch {
	case len(a.body) <= room:
		return a.appendBody(out, len(a.body), turn), a.counts, false
	case int(a.ends[authority]) <= room:
		return a.appendBody(out, int(a.ends[authority]), turn), [3]uint16{a.counts[answer], a.counts[authority]}, false
	case a.counts[answer] > 0 && int(a.ends[answer]) <= room:
		return a.appendBody(out, int(a.ends[answer]), turn), [3]uint16{a.counts[answer]}, false
	}
	// Whole records from the front, of the addresses those whose turn it is. TTL fields stand at the same places.
	n, end := 0, 0
	for ; n < int(a.counts[answer]); n++ {
		ttl := int(a.ttls[n])
		next := ttl + 6 + int(binary.BigEndian.Uint16(a.body[ttl+4:]))
		if next > room {
			break
		}
		end = next
	}
	return a.appendBody(out, end, turn), [3]uint16{uint16(n)}, true
}

// appendBody appends the first end bytes of the body, with the addresses turned.
func (a *Answer) appendBody(out []byte, end int, turn uint32) []byte {
	s := a.turns
	if s.n < 2 || end <= int(s.start) {
		return append(out, a.body[:end]...)
	}
	start, stop := int(s.start), int(s.start)+int(s.n)*int(s.size)
	first := start + int(turn%uint32(s.n))*int(s.size)
	base := len(out)
	out = append(out, a.body[:start]...)
	out = append(out, a.body[first:stop]...)
	if rest := end - (len(out) - base); rest > 0 {
		out = append(out, a.body[start:min(first, start+rest)]...)
	}
	if end > stop {
		return append(out, a.body[stop:end]...)
	}
	return out[:base+end]
}

// age writes the times to live that are left.
func age(body []byte, ttls []uint16, l Life) {
	if l.Age == 0 && l.Stale == 0 {
		return
	}
	for _, at := range ttls {
		field := body[at : at+4]
		ttl := l.Stale
		if ttl == 0 {
			ttl = binary.BigEndian.Uint32(field)
			ttl -= min(ttl, l.Age)
		}
		binary.BigEndian.PutUint32(field, ttl)
	}
}
