package dns

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/zones"
	"github.com/podway/podway/internal/model"
)

// Declared implements hop.Hop: what the API says f.DNS leads to. A question that the cluster cannot answer passes.
func (h *Hop) Declared(s *model.Snapshot, f flow.Flow) flow.Verdict {
	if f.DNS == nil {
		return flow.Verdict{Action: flow.Pass, Why: "no question to DNS"}
	}
	now := h.serving.Load()
	v, err := answers.Of(now.answers, s)
	if err != nil {
		return flow.Verdict{Action: flow.Answer, Rcode: "SERVFAIL", Why: err.Error()}
	}
	return decide(now.first, v, s, *f.DNS)
}

// decide asks the blocks of a socket, with a view, as the client's resolver would. s is the snapshot that the view shows,
// or nil.
func decide(t *zones.Table, v *answers.View, s *model.Snapshot, q flow.Question) flow.Verdict {
	typ, ok := dns.StringToType[strings.ToUpper(q.Type)]
	if q.Type == "" {
		typ, ok = dns.TypeA, true
	}
	if !ok {
		return flow.Verdict{Action: flow.Answer, Rcode: "FORMERR", Why: fmt.Sprintf("%q is no type of record", q.Type)}
	}
	best, tried := search(func(name string) answers.Found { return t.Find(v, name, typ) }, q)
	x := explainer{view: v, s: s, q: q, typ: typ, tried: tried}
	switch {
	case len(tried) == 0 || best.found.Kind == answers.Odd:
		return flow.Verdict{Action: flow.Answer, Rcode: "FORMERR", Name: best.name, Why: fmt.Sprintf("%q is no domain name", q.Name)}
	case x.worldly(best):
		return flow.Verdict{Action: flow.Pass, Name: dns.Fqdn(q.Name), Why: "not a name of the cluster: the upstream servers are asked"}
	case best.found.Kind == answers.Foreign:
		best.found = answers.Found{Rcode: dns.RcodeNameError}
	}
	out := flow.Verdict{Action: flow.Answer, Rcode: dns.RcodeToString[best.found.Rcode], Name: best.name}
	for _, rr := range best.found.Answer {
		out.Records = append(out.Records, Record(rr))
	}
	slices.Sort(out.Records)
	if best.found.Outside != "" {
		out.Action = flow.Pass
	}
	x.explain(&out, best)
	return out
}

// worldly reports whether the question leaves the cluster: the name as typed is none of the cluster's and does not look
// like one, and nothing in the cluster answers before it is tried.
func (x explainer) worldly(best try) bool {
	for i, t := range x.tried {
		if t.name == dns.Fqdn(x.q.Name) && t.found.Kind == answers.Foreign {
			return (i == 0 || best.found.Kind == answers.Foreign) && x.meant() == ""
		}
	}
	return false
}

// Record spells a record as verdicts do: "A 10.96.0.7".
func Record(rr dns.RR) string {
	h := rr.Header()
	return dns.TypeToString[h.Rrtype] + " " + strings.TrimPrefix(rr.String(), h.String())
}
