package server

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// patience is how long an upstream answer is waited for; a stub resolver gives up after 5 seconds.
const patience = 5 * time.Second

// busy is the answer when too many questions are being asked upstream.
func busy(msg []byte) ([]byte, seen) {
	var q dns.Msg
	if q.Unpack(msg) != nil || q.Response || len(q.Question) != 1 {
		return nil, seen{}
	}
	return pack(&q, reply(&q, dns.RcodeServerFailure), false, answers.Elsewhere)
}

// slow answers what is not an ordinary question about a name of the cluster. It returns nil for what deserves no answer.
func (s *Server) slow(msg []byte, tcp bool) ([]byte, seen) {
	var q dns.Msg
	if err := q.Unpack(msg); err != nil {
		return malformed(msg)
	}
	if q.Response {
		return nil, seen{}
	}
	a, zone := s.answer(&q)
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
	return out, seen{rcode: dns.RcodeFormatError}
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
	return out, what
}

// answer decides about a question that could be read.
func (s *Server) answer(q *dns.Msg) (*dns.Msg, answers.Zone) {
	refuse := func(rcode int) (*dns.Msg, answers.Zone) { return reply(q, rcode), answers.Elsewhere }
	switch opt := q.IsEdns0(); {
	case q.Opcode != dns.OpcodeQuery:
		return refuse(dns.RcodeNotImplemented)
	case len(q.Question) != 1:
		return refuse(dns.RcodeFormatError)
	case opt != nil && opt.Version() != 0:
		return refuse(dns.RcodeBadVers)
	case q.Question[0].Qclass != dns.ClassINET:
		return refuse(dns.RcodeRefused)
	}
	name, typ := q.Question[0].Name, q.Question[0].Qtype
	if typ == dns.TypeAXFR || typ == dns.TypeIXFR {
		return refuse(dns.RcodeRefused)
	}
	f := find(s.o.View(), name, typ)
	switch {
	case f.Kind == answers.Odd:
		return refuse(dns.RcodeFormatError)
	case f.Kind == answers.Foreign:
		return s.forward(q), answers.Elsewhere
	}
	a := reply(q, f.Rcode)
	a.Authoritative = f.Rcode != dns.RcodeServerFailure
	a.Answer, a.Ns, a.Extra = f.Answer, f.Authority, f.Extra
	shuffle(a.Answer)
	if f.Outside != "" {
		s.chase(a, f.Outside, q)
	}
	return a, answers.Cluster
}

// find is View.Find that knows ANY too: all records of the name (RFC 8482 allows fewer).
func find(v *answers.View, name string, typ uint16) answers.Found {
	if typ != dns.TypeANY {
		return v.Find(name, typ)
	}
	f := v.Find(name, dns.TypeCNAME)
	if f.Kind != answers.Answered || f.Rcode != dns.RcodeSuccess || len(f.Answer) > 0 {
		return f
	}
	for _, t := range v.Types(name) {
		one := v.Find(name, t)
		f.Answer = append(f.Answer, one.Answer...)
	}
	if len(f.Answer) > 0 {
		f.Authority = nil
	}
	return f
}

// forward asks upstream about a name that is not the cluster's.
func (s *Server) forward(q *dns.Msg) *dns.Msg {
	if s.o.Upstream == nil || s.o.Upstream.Probed(q.Question[0].Name) {
		return reply(q, dns.RcodeRefused)
	}
	up, err := s.ask(q)
	if err != nil {
		return reply(q, dns.RcodeServerFailure)
	}
	a := reply(q, up.Rcode)
	a.Truncated = up.Truncated
	a.Answer, a.Ns, a.Extra = up.Answer, up.Ns, withoutOPT(up.Extra)
	if opt := q.IsEdns0(); q.AuthenticatedData || opt != nil && opt.Do() {
		a.AuthenticatedData = up.AuthenticatedData
	}
	return a
}

// chase adds what the target of a CNAME leads to; the rcode is the target's (RFC 6604). Half an answer is none.
func (s *Server) chase(a *dns.Msg, target string, q *dns.Msg) {
	sub := q.Copy()
	sub.Question[0].Name = target
	var up *dns.Msg
	err := error(nil)
	if s.o.Upstream != nil {
		up, err = s.ask(sub)
	}
	if up == nil || err != nil || up.Rcode != dns.RcodeSuccess && up.Rcode != dns.RcodeNameError {
		a.Rcode, a.Answer, a.Ns, a.Extra, a.Authoritative = dns.RcodeServerFailure, nil, nil, nil, false
		return
	}
	a.Rcode, a.Truncated = up.Rcode, up.Truncated
	a.Answer, a.Ns = append(a.Answer, up.Answer...), up.Ns
}

func (s *Server) ask(q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(s.quit, patience)
	defer cancel()
	return s.o.Upstream.Exchange(ctx, q)
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

// shuffle mixes the addresses behind CNAMEs, so that each is as likely to come first.
func shuffle(rrs []dns.RR) {
	first := 0
	for first < len(rrs) && rrs[first].Header().Rrtype == dns.TypeCNAME {
		first++
	}
	rest := rrs[first:]
	rand.Shuffle(len(rest), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
}
