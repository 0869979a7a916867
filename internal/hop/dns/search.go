package dns

import (
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/dns/answers"
)

// candidates are the absolute names that a resolver asks for, in order (resolv.conf(5): search and ndots).
func candidates(q flow.Question) []string {
	if strings.HasSuffix(q.Name, ".") {
		return []string{q.Name}
	}
	var out []string
	for _, domain := range q.Search {
		out = append(out, q.Name+"."+dns.Fqdn(strings.TrimPrefix(domain, ".")))
	}
	if strings.Count(q.Name, ".") >= q.NDots {
		return append([]string{q.Name + "."}, out...)
	}
	return append(out, q.Name+".")
}

// try is one candidate and what it leads to.
type try struct {
	name  string
	found answers.Found
}

func (t try) positive() bool {
	return t.found.Kind == answers.Answered && t.found.Rcode == dns.RcodeSuccess && len(t.found.Answer) > 0
}

func (t try) noData() bool {
	return t.found.Kind == answers.Answered && t.found.Rcode == dns.RcodeSuccess && len(t.found.Answer) == 0
}

// search asks for one candidate after the other as glibc does: the first with records wins. Else a name without such
// records counts before a failure, and a failure before a name that does not exist. A domain that is not the cluster's
// is passed over: nobody can say from here what it holds.
func search(find func(name string) answers.Found, q flow.Question) (best try, tried []try) {
	rank := -1
	for _, name := range candidates(q) {
		t := try{name, find(name)}
		tried = append(tried, t)
		if t.positive() {
			return t, tried
		}
		if r := t.rank(); r > rank {
			best, rank = t, r
		}
	}
	return best, tried
}

// rank orders answers without records by what the client is told in the end.
func (t try) rank() int {
	switch {
	case t.noData():
		return 3
	case t.found.Kind == answers.Answered && t.found.Rcode == dns.RcodeServerFailure:
		return 2
	case t.found.Kind == answers.Foreign:
		return 1
	}
	return 0
}
