package packet

import (
	"time"

	"github.com/miekg/dns"
)

// Limits bound how long answers are kept: those with records, and the negative ones without (RFC 2308). A life shorter than
// the least is stretched, but not one of 0.
type Limits struct {
	Max, Min                 time.Duration
	MaxNegative, MinNegative time.Duration
	NoSOA                    time.Duration // of a negative answer that does not say how long it holds
}

// Apply says how long an answer may be kept, 0 = not at all, and whether it is negative. The records' times to live are
// brought within the limits, so that no client keeps what we would not.
func (l Limits) Apply(m *dns.Msg) (life time.Duration, negative bool) {
	negative = isNegative(m)
	b := bounds{l.Min, l.Max}
	if negative {
		b = bounds{l.MinNegative, min(l.Max, l.MaxNegative)}
	}
	life = b.most
	for _, rr := range m.Answer {
		life = min(life, b.clamp(&rr.Header().Ttl))
	}
	soa := false
	for _, rr := range m.Ns {
		left := b.clamp(&rr.Header().Ttl)
		if s, ok := rr.(*dns.SOA); ok && negative {
			least := s.Minttl
			left = min(left, b.clamp(&least))
			s.Hdr.Ttl = uint32(left / time.Second)
			soa, life = true, min(life, left)
		}
	}
	for _, rr := range m.Extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			b.clamp(&rr.Header().Ttl)
		}
	}
	switch {
	case !negative || soa:
		return life, negative
	case len(m.Ns) == 0:
		return min(life, l.NoSOA), true
	}
	return 0, true // a referral, or NS records that say nothing about the name
}

// isNegative reports whether the end of the chain has no record of the type that was asked for.
func isNegative(m *dns.Msg) bool {
	if m.Rcode == dns.RcodeNameError || len(m.Answer) == 0 {
		return true
	}
	if len(m.Question) != 1 || m.Question[0].Qtype == dns.TypeANY {
		return false
	}
	for _, rr := range m.Answer {
		if rr.Header().Rrtype == m.Question[0].Qtype {
			return false
		}
	}
	return true
}

type bounds struct{ least, most time.Duration }

// clamp brings a field within the bounds and returns its value. One with its first bit set counts as 0 (RFC 2181 8).
func (b bounds) clamp(ttl *uint32) time.Duration {
	left := seconds(*ttl)
	if *ttl > 1<<31-1 {
		left = 0
	}
	if left > 0 {
		left = min(max(left, b.least), b.most)
	}
	*ttl = uint32(left / time.Second)
	return left
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }
