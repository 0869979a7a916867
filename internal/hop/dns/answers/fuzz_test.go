package answers

import (
	"testing"

	"github.com/miekg/dns"
)

// FuzzAnswer checks the query parser against miekg/dns: what it takes for an ordinary question is one, and the answer
// is a well-formed message to that very question.
func FuzzAnswer(f *testing.F) {
	for _, c := range specification {
		q := question("x.", dns.TypeA)
		q.Question[0].Name = dns.Fqdn(c.question[len("A "):])
		if wire, err := q.Pack(); err == nil {
			f.Add(wire, false)
		}
		q.SetEdns0(1232, true)
		if wire, err := q.Pack(); err == nil {
			f.Add(wire, true)
		}
	}
	v := view(f, options, shop())
	var scratch Query // kept, as a server does: nothing of an earlier question may remain
	f.Fuzz(func(t *testing.T, msg []byte, tcp bool) {
		out, r := v.Answer(&scratch, nil, msg, tcp, 1)
		if r.Kind == Odd {
			return
		}
		var q, a dns.Msg
		if err := q.Unpack(msg); err != nil {
			t.Skip() // we skip options and what follows; miekg/dns reads them
		}
		if len(q.Question) != 1 || q.Response || q.Question[0].Qclass != dns.ClassINET {
			t.Fatalf("taken for an ordinary question: %v", &q)
		}
		if r.Kind != Answered {
			return
		}
		if err := a.Unpack(out); err != nil {
			t.Fatalf("the answer does not unpack: %v", err)
		}
		if a.Id != q.Id || a.Question[0] != q.Question[0] || !a.Response || a.Rcode != r.Rcode {
			t.Fatalf("question %v\nanswer %v", &q, &a)
		}
		if limit := 65535; tcp && len(out) > limit || !tcp && len(out) > MaxUDP {
			t.Fatalf("%d bytes", len(out))
		}
	})
}
