package zones

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// rewrite is a rule with its expressions compiled.
type rewrite struct {
	c       *config.Rewrite
	from    *regexp.Regexp // Regex
	answers []*regexp.Regexp
}

func newRewrite(c *config.Rewrite) (rewrite, error) {
	r := rewrite{c: c}
	if c.Match == config.Regex {
		var err error
		if r.from, err = regexp.Compile(c.From); err != nil {
			return r, fmt.Errorf("%s: rewrite: %w", c.At, err)
		}
	}
	for _, a := range c.Answers {
		re, err := regexp.Compile(a.From)
		if err != nil {
			return r, fmt.Errorf("%s: rewrite: %w", c.At, err)
		}
		r.answers = append(r.answers, re)
	}
	return r, nil
}

// matches reports whether a name is one that the rule is about.
func (r *rewrite) matches(name string) bool {
	switch r.c.Match {
	case config.Exact:
		return name == r.c.From
	case config.Prefix:
		return strings.HasPrefix(name, r.c.From)
	case config.Suffix:
		return strings.HasSuffix(name, r.c.From)
	case config.Substring:
		return strings.Contains(name, r.c.From)
	case config.Regex:
		return r.from != nil && r.from.MatchString(name)
	}
	return false
}

// name is what a matching name becomes.
func (r *rewrite) name(name string) string {
	switch r.c.Match {
	case config.Prefix:
		name = r.c.To + strings.TrimPrefix(name, r.c.From)
	case config.Suffix:
		name = strings.TrimSuffix(name, r.c.From) + r.c.To
	case config.Substring:
		name = strings.ReplaceAll(name, r.c.From, r.c.To)
	case config.Regex:
		name = filled(r.c.To, r.from.FindStringSubmatch(name))
	default:
		name = r.c.To
	}
	return dns.CanonicalName(name)
}

// filled puts the groups of a match in for {0}, {1}, ...
func filled(to string, groups []string) string {
	for i, g := range groups {
		to = strings.ReplaceAll(to, "{"+strconv.Itoa(i)+"}", g)
	}
	return to
}

// rewritten changes the question by the rules, answers it, and changes the answer back.
func (b *block) rewritten(w *walk, q *dns.Msg) result {
	asked := q.Question[0]
	question := asked
	question.Name = dns.CanonicalName(question.Name)
	var hit []*rewrite
	for i := range b.rewrites {
		r := &b.rewrites[i]
		if !r.apply(&question) {
			continue
		}
		hit = append(hit, r)
		if !r.c.Continue {
			break
		}
	}
	if len(hit) == 0 {
		return b.inside(w, q)
	}
	if _, ok := dns.IsDomainName(question.Name); !ok {
		return refuse(q, dns.RcodeServerFailure)
	}
	sub := q.Copy()
	sub.Question[0] = question
	out := b.inside(w, sub)
	if out.msg != nil {
		restore(out.msg, asked, question.Name, hit)
	}
	return out
}

// apply changes a question if the rule is about it. Rules about the answer change nothing yet.
func (r *rewrite) apply(q *dns.Question) bool {
	switch r.c.Field {
	case config.RewriteType:
		if q.Qtype != r.c.FromType {
			return false
		}
		q.Qtype = r.c.ToType
	case config.RewriteClass:
		if q.Qclass != r.c.FromClass {
			return false
		}
		q.Qclass = r.c.ToClass
	default:
		if !r.matches(q.Name) {
			return false
		}
		if r.c.Field == config.RewriteName {
			q.Name = r.name(q.Name)
		}
	}
	return true
}

// restore makes an answer one to the question that was asked: its question, and records of the rewritten name.
func restore(a *dns.Msg, asked dns.Question, name string, hit []*rewrite) {
	a.Question = []dns.Question{asked}
	for _, section := range [][]dns.RR{a.Answer, a.Ns, a.Extra} {
		for _, rr := range section {
			h := rr.Header()
			if h.Rrtype == dns.TypeOPT {
				continue
			}
			if strings.EqualFold(h.Name, name) {
				h.Name = asked.Name
			}
			for _, r := range hit {
				r.record(rr)
			}
		}
	}
	for _, r := range hit {
		if r.c.Field == config.RewriteRcode && (r.c.FromRcode < 0 || r.c.FromRcode == a.Rcode) {
			a.Rcode = r.c.ToRcode
		}
	}
}

// record changes one record of an answer.
func (r *rewrite) record(rr dns.RR) {
	h := rr.Header()
	if r.c.Field == config.RewriteTTL {
		h.Ttl = min(max(h.Ttl, r.c.MinTTL), r.c.MaxTTL)
	}
	for i, a := range r.c.Answers {
		change := func(name *string) {
			if groups := r.answers[i].FindStringSubmatch(strings.ToLower(*name)); groups != nil {
				*name = dns.Fqdn(filled(a.To, groups))
			}
		}
		if !a.Value {
			change(&h.Name)
			continue
		}
		for _, name := range namesIn(rr) {
			change(name)
		}
	}
}

// namesIn are the names in a record's data.
func namesIn(rr dns.RR) []*string {
	switch rr := rr.(type) {
	case *dns.CNAME:
		return []*string{&rr.Target}
	case *dns.DNAME:
		return []*string{&rr.Target}
	case *dns.SRV:
		return []*string{&rr.Target}
	case *dns.PTR:
		return []*string{&rr.Ptr}
	case *dns.MX:
		return []*string{&rr.Mx}
	case *dns.NS:
		return []*string{&rr.Ns}
	case *dns.SOA:
		return []*string{&rr.Ns, &rr.Mbox}
	case *dns.NAPTR:
		return []*string{&rr.Replacement}
	case *dns.SVCB:
		return []*string{&rr.Target}
	case *dns.HTTPS:
		return []*string{&rr.Target}
	}
	return nil
}
