package server

import (
	"net/netip"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// busy is the answer when too many questions are being asked upstream.
func busy(msg []byte) ([]byte, seen) {
	var q dns.Msg
	if q.Unpack(msg) != nil || q.Response || len(q.Question) != 1 {
		return nil, seen{}
	}
	return pack(&q, reply(&q, dns.RcodeServerFailure), false, answers.Elsewhere)
}

// slow answers what is not an ordinary question about a name of the cluster. It returns nil for what deserves no answer.
func (s *Server) slow(msg []byte, from netip.AddrPort, tcp bool) ([]byte, seen) {
	var q dns.Msg
	if err := q.Unpack(msg); err != nil {
		return malformed(msg)
	}
	if q.Response {
		return nil, seen{}
	}
	a, zone := s.o.Handler(s.quit, &q, from, tcp)
	if a == nil {
		return nil, seen{}
	}
	return pack(&q, a, tcp, zone)
}

// malformed answers what cannot be read beyond its header.
func malformed(msg []byte) ([]byte, seen) {
	if len(msg) < 12 || msg[2]&0x80 != 0 {
		return nil, seen{}
	}
	out := make([]byte, 12)
	copy(out, msg[:3])
	out[2] = out[2]&^0x06 | 0x80 // QR, neither AA nor TC
	out[3] = dns.RcodeFormatError
	return out, seen{rcode: dns.RcodeFormatError, answer: len(out)}
}

func reply(q *dns.Msg, rcode int) *dns.Msg {
	a := new(dns.Msg).SetRcode(q, rcode)
	a.RecursionDesired, a.CheckingDisabled = q.RecursionDesired, q.CheckingDisabled
	return a
}

// pack finishes an answer: flags, OPT, compression, and what the client's transport holds.
func pack(q, a *dns.Msg, tcp bool, zone answers.Zone) ([]byte, seen) {
	a.RecursionAvailable, a.Compress = true, true
	limit := dns.MaxMsgSize - 1
	if !tcp {
		limit = answers.UDPSize(0)
	}
	if opt := q.IsEdns0(); opt != nil {
		a.SetEdns0(answers.MaxUDP, opt.Do())
		if !tcp {
			limit = answers.UDPSize(opt.UDPSize())
		}
	}
	cut := a.Truncated
	a.Truncate(limit)
	a.Truncated = a.Truncated || cut
	what := seen{rcode: a.Rcode, zone: zone, upstream: zone == answers.Elsewhere}
	if len(q.Question) > 0 {
		what.typ = q.Question[0].Qtype
	}
	out, err := a.Pack()
	if err != nil { // a record that somebody sent us and that we cannot spell
		out, err = reply(q, dns.RcodeServerFailure).Pack()
		what.rcode = dns.RcodeServerFailure
	}
	if err != nil {
		return nil, seen{}
	}
	what.answer = len(out)
	return out, what
}
