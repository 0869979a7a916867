package zones

import (
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	text "text/template"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// template is one `template` with its expressions compiled.
type template struct {
	c     *config.Template
	zones []string
	match []*regexp.Regexp
	parts [3][]*text.Template // answer, authority, additional
}

var functions = text.FuncMap{"parseInt": strconv.ParseUint}

func newTemplate(c *config.Template, zones []string) (*template, error) {
	t := &template{c: c, zones: zones}
	if len(c.Zones) > 0 {
		t.zones = c.Zones
	}
	var errs []error
	for _, s := range c.Match {
		re, err := regexp.Compile(s)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: template: %w", c.At, err))
			continue
		}
		t.match = append(t.match, re)
	}
	for i, list := range [][]string{c.Answer, c.Authority, c.Additional} {
		for _, s := range list {
			one, err := text.New("record").Funcs(functions).Option("missingkey=zero").Parse(s)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: template: %w", c.At, err))
				continue
			}
			t.parts[i] = append(t.parts[i], one)
		}
	}
	return t, errors.Join(errs...)
}

// data is what a template sees.
type data struct {
	Zone, Name, Class, Type string
	Match                   []string
	Group                   map[string]string
	Message                 *dns.Msg
	Question                *dns.Question
	Remote                  string
}

// Meta is what other plugins would have to say of a question; there are none.
func (data) Meta(string) string { return "" }

// fromTemplates asks the templates in their order.
func (b *block) fromTemplates(w *walk, q *dns.Msg, name string) result {
	for _, t := range b.templates {
		if r := t.answer(w, q, name); !r.next {
			return r
		}
	}
	return next
}

func (t *template) answer(w *walk, q *dns.Msg, name string) result {
	asked := q.Question[0]
	zone := config.Longest(t.zones, name)
	if zone == "" || t.c.Class != dns.ClassANY && asked.Qclass != dns.ClassANY && t.c.Class != asked.Qclass ||
		t.c.Type != dns.TypeANY && asked.Qtype != dns.TypeANY && t.c.Type != asked.Qtype {
		return next
	}
	d := data{Zone: zone, Name: name, Class: dns.Class(asked.Qclass).String(), Type: dns.Type(asked.Qtype).String(),
		Message: q, Question: &asked, Remote: w.client.Addr.Addr().Unmap().String()}
	switch {
	case !t.matched(&d):
		if t.c.Fall.Through(name) {
			return next
		}
		return refuse(q, dns.RcodeServerFailure)
	case t.c.Rcode == dns.RcodeServerFailure:
		return refuse(q, t.c.Rcode)
	}
	a := reply(q, t.c.Rcode)
	a.Authoritative = true
	for i, section := range []*[]dns.RR{&a.Answer, &a.Ns, &a.Extra} {
		for _, one := range t.parts[i] {
			rr, err := made(one, d)
			if err != nil {
				slog.Warn("template makes no record", "hop", "dns", "at", t.c.At.String(), "err", err)
				return refuse(q, dns.RcodeServerFailure)
			}
			*section = append(*section, rr)
		}
	}
	out := answered(a)
	if n := len(a.Answer); n > 0 && asked.Qtype != dns.TypeCNAME && asked.Qtype != dns.TypeANY {
		if c, ok := a.Answer[n-1].(*dns.CNAME); ok && !strings.EqualFold(c.Target, asked.Name) {
			w.chase(&out, q, c.Target)
		}
	}
	return out
}

// matched fills in what the first expression that matches found.
func (t *template) matched(d *data) bool {
	if len(t.c.Match) == 0 {
		d.Match, d.Group = []string{d.Name}, map[string]string{"0": d.Name}
		return true
	}
	for _, re := range t.match {
		groups := re.FindStringSubmatch(d.Name)
		if groups == nil {
			continue
		}
		d.Match, d.Group = groups, map[string]string{}
		for i, name := range re.SubexpNames() {
			d.Group[strconv.Itoa(i)] = groups[i]
			if name != "" {
				d.Group[name] = groups[i]
			}
		}
		return true
	}
	return false
}

func made(t *text.Template, d data) (dns.RR, error) {
	var b strings.Builder
	if err := t.Execute(&b, d); err != nil {
		return nil, err
	}
	rr, err := dns.NewRR(b.String())
	if err == nil && rr == nil {
		err = errors.New("an empty line")
	}
	return rr, err
}
