package server

import (
	"math/rand/v2"
	"time"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// quick answers what can be answered where it was read: from the view, or with an answer of other servers that is at hand.
// It appends to out[:0] and allocates nothing when that has room. false = the slow path must answer.
func (s *Server) quick(q *answers.Query, out, msg []byte, tcp bool, now time.Time) ([]byte, seen, bool) {
	turn := rand.Uint32()
	reply, r := s.o.View().Answer(q, out, msg, tcp, turn)
	switch {
	case r.Kind == answers.Answered:
		return reply, seen{tcp: tcp, typ: r.Type, zone: r.Zone, rcode: r.Rcode}, true
	case r.Kind == answers.Foreign && s.o.Cached != nil:
		reply, rcode, ok := s.o.Cached(q.Asked(tcp), out, msg, turn, now)
		return reply, seen{tcp: tcp, typ: r.Type, zone: answers.Elsewhere, upstream: true, rcode: rcode}, ok
	}
	return nil, seen{}, false
}
