package server

import (
	"iter"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// Transfer says whether a client may fetch a zone (AXFR, RFC 5936), and what is in it: the SOA, and all other records.
type Transfer func(zone string, from netip.AddrPort) (soa dns.RR, records iter.Seq[dns.RR], granted bool)

// mostOfAMessage is how many bytes of records, not compressed, one message of a transfer takes.
const mostOfAMessage = 32_000

// transfer answers a question for a whole zone over a TCP connection; false = it is none, or is refused as any other odd one.
// A question for what has changed (IXFR) is answered with all of it, as RFC 1995 allows.
func (s *Server) transfer(c *tcpConn, msg []byte, from netip.AddrPort, began time.Time) bool {
	if s.o.Transfer == nil {
		return false
	}
	var q dns.Msg
	if q.Unpack(msg) != nil || q.Response || q.Opcode != dns.OpcodeQuery || len(q.Question) != 1 || q.Question[0].Qclass != dns.ClassINET {
		return false
	}
	typ := q.Question[0].Qtype
	if typ != dns.TypeAXFR && typ != dns.TypeIXFR {
		return false
	}
	soa, records, granted := s.o.Transfer(dns.CanonicalName(q.Question[0].Name), from)
	if !granted {
		return false
	}
	sent, ok := c.stream(&q, soa, records)
	if !ok {
		c.Close()
		return true
	}
	s.o.Metrics.seen(seen{tcp: true, v6: isV6(from), typ: typ, zone: 1, question: len(msg), answer: sent, took: time.Since(began)})
	return true
}

// stream sends the SOA, the records and the SOA again, in as many messages as it takes.
func (c *tcpConn) stream(q *dns.Msg, soa dns.RR, records iter.Seq[dns.RR]) (sent int, ok bool) {
	a, size := reply(q, dns.RcodeSuccess), 0
	flush := func() bool {
		a.Authoritative, a.Compress = true, true
		wire, err := a.Pack()
		if err != nil || c.write(wire) != nil {
			return false
		}
		sent += len(wire)
		a, size = reply(q, dns.RcodeSuccess), 0
		return true
	}
	add := func(rr dns.RR) bool {
		a.Answer, size = append(a.Answer, rr), size+dns.Len(rr)
		return size < mostOfAMessage || flush()
	}
	if !add(soa) {
		return sent, false
	}
	for rr := range records {
		if !add(rr) {
			return sent, false
		}
	}
	a.Answer = append(a.Answer, soa)
	return sent, flush()
}
