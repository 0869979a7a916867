package probe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
)

// ask sends the question to Dst over UDP as a resolver would: each name of the search list in its turn, until one exists.
func ask(ctx context.Context, r Request, dial dialFunc) (Answer, error) {
	if r.DNS == nil {
		return Answer{}, errors.New("probe: a dns probe needs a question")
	}
	qtype, ok := dns.StringToType[r.DNS.Type]
	if !ok {
		return Answer{}, fmt.Errorf("probe: record type %q is not known", r.DNS.Type)
	}
	var last Answer
	for _, name := range Candidates(*r.DNS) {
		a, err := exchange(ctx, r, dial, name, qtype)
		if err != nil || a.Rcode != "NXDOMAIN" && len(a.Records) > 0 {
			return a, err
		}
		if last.Rcode == "" || a.Rcode == "NOERROR" { // a name without such records is more than no name
			last = a
		}
	}
	return last, nil
}

// Candidates is the absolute names that a resolver asks for in order (resolv.conf(5): search and ndots).
func Candidates(q flow.Question) []string {
	if strings.HasSuffix(q.Name, ".") {
		return []string{q.Name}
	}
	var out []string
	for _, s := range q.Search {
		out = append(out, q.Name+"."+strings.TrimSuffix(s, ".")+".")
	}
	asIs := q.Name + "."
	if strings.Count(q.Name, ".") >= q.NDots {
		return append([]string{asIs}, out...)
	}
	return append(out, asIs)
}

func exchange(ctx context.Context, r Request, dial dialFunc, name string, qtype uint16) (Answer, error) {
	c, err := dial(ctx, "udp", r.Dst.String())
	if err != nil {
		return Answer{}, err
	}
	defer c.Close()
	m := new(dns.Msg)
	m.SetQuestion(name, qtype)
	m.SetEdns0(1232, false)
	if deadline, ok := ctx.Deadline(); ok {
		_ = c.SetDeadline(deadline)
	}
	resp, _, err := new(dns.Client).ExchangeWithConnContext(ctx, m, &dns.Conn{Conn: c, UDPSize: 1232})
	if err != nil {
		return Answer{}, err
	}
	a := Answer{Result: Answered, Local: local(c), Rcode: dns.RcodeToString[resp.Rcode], Name: name}
	for _, rr := range resp.Answer {
		a.Records = append(a.Records, record(rr))
	}
	slices.Sort(a.Records)
	return a, nil
}

// record is "TYPE DATA", as flow.Verdict has it.
func record(rr dns.RR) string {
	h := rr.Header()
	return dns.TypeToString[h.Rrtype] + " " + strings.TrimPrefix(rr.String(), h.String())
}
