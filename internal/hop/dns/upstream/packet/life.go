package packet

import (
	"time"

	"github.com/miekg/dns"
)

// Limits bound how long answers are kept.
type Limits struct {
	Max      time.Duration // of answers with records
	Negative time.Duration // of answers without (RFC 2308)
	Min      time.Duration // of both: a shorter life is stretched, 0 = none is
	NoSOA    time.Duration // of a negative answer that does not say how long it holds
}

// Apply says how long an answer may be kept, 0 = not at all, and whether it is negative. The records' times to live are
// brought within the limits, so that no client keeps what we would not.
func (l Limits) Apply(m *dns.Msg) (life time.Duration, negative bool) {
	negative = isNegative(m)
	longest := l.Max
	if negative {
		longest = min(l.Max, l.Negative)
	}
	life = longest
	for _, rr := range m.Answer {
		life = min(life, l.clamp(rr.Header(), longest))
	}
	authority, soa := time.Duration(0), false
	for _, rr := range m.Ns {
		left := l.clamp(rr.Header(), longest)
		if s, ok := rr.(*dns.SOA); ok && negative {
			soa, authority = true, min(left, max(l.Min, seconds(ttl(s.Minttl))))
			s.Hdr.Ttl = uint32(min(left, authority) / time.Second)
		}
	}
	for _, rr := range m.Extra {
		if rr.Header().Rrtype != dns.TypeOPT {
			l.clamp(rr.Header(), longest)
		}
	}
	switch {
	case negative && soa:
		life = min(life, authority)
	case negative && len(m.Ns) == 0:
		life = min(life, l.NoSOA)
	case negative: // a referral, or NS records that say nothing about the name
		life = 0
	}
	return life, negative
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

// clamp brings one record's time to live within the limits and returns it.
func (l Limits) clamp(h *dns.RR_Header, longest time.Duration) time.Duration {
	left := min(max(seconds(ttl(h.Ttl)), l.Min), longest)
	h.Ttl = uint32(left / time.Second)
	return left
}

// ttl is the value of a field: one with its first bit set counts as 0 (RFC 2181 8).
func ttl(field uint32) uint32 {
	if field > 1<<31-1 {
		return 0
	}
	return field
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }
