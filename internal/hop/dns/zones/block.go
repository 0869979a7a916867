package zones

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
)

// block is a server block at work.
type block struct {
	z         *Zones
	c         *config.Block
	zones     []string
	rewrites  []rewrite
	templates []*template
	hosts     *hosts
	files     []*file
	forwards  []*forwarder
}

func (z *Zones) block(c *config.Block) (*block, error) {
	b := &block{z: z, c: c, zones: c.Zones()}
	var errs []error
	for i := range c.Rewrites {
		r, err := newRewrite(&c.Rewrites[i])
		errs = append(errs, err)
		b.rewrites = append(b.rewrites, r)
	}
	for i := range c.Templates {
		t, err := newTemplate(&c.Templates[i], b.zones)
		errs = append(errs, err)
		b.templates = append(b.templates, t)
	}
	if c.Hosts != nil {
		b.hosts = newHosts(c.Hosts, b.zones)
	}
	for i := range c.Files {
		b.files = append(b.files, newFiles(&c.Files[i], b.zones)...)
	}
	for i := range c.Forwards {
		b.forwards = append(b.forwards, &forwarder{c: &c.Forwards[i], up: z.o.Forward(c, &c.Forwards[i])})
	}
	return b, errors.Join(append(errs, b.refresh(time.Now()))...)
}

func (b *block) refresh(now time.Time) error {
	var errs []error
	if b.hosts != nil {
		errs = append(errs, b.hosts.refresh(now))
	}
	for _, f := range b.files {
		errs = append(errs, f.refresh(now))
	}
	return errors.Join(errs...)
}

// walk is one question on its way.
type walk struct {
	ctx     context.Context
	t       *Table
	view    *answers.View
	client  Client
	offline bool // no other server is asked
	depth   int  // CNAMEs that were followed
}

// mostCNAMEs is how many CNAMEs are followed from one block to another.
const mostCNAMEs = 8

// result is an answer.
type result struct {
	msg     *dns.Msg // nil = none is sent
	zone    answers.Zone
	foreign bool   // offline: another server would be asked
	outside string // offline: the CNAME's target that another server would be asked for
	next    bool   // not an answer: the next in the block is asked
}

func answered(m *dns.Msg) result          { return result{msg: m} }
func refuse(q *dns.Msg, rcode int) result { return result{msg: reply(q, rcode)} }

var next = result{next: true}

// answer finds the block and asks it.
func (w *walk) answer(q *dns.Msg) result {
	b := w.t.block(dns.CanonicalName(q.Question[0].Name))
	if b == nil {
		return refuse(q, dns.RcodeRefused)
	}
	began := time.Now()
	r := b.guarded(w, q)
	if r.msg != nil && b.c.Minimal && r.msg.Rcode == dns.RcodeSuccess && len(r.msg.Answer) > 0 {
		r.msg.Ns, r.msg.Extra = nil, slices.DeleteFunc(r.msg.Extra, func(rr dns.RR) bool { return rr.Header().Rrtype != dns.TypeOPT })
	}
	if len(b.c.Log) > 0 && w.depth == 0 && !w.offline {
		b.log(q, r.msg, w.client, time.Since(began))
	}
	return r
}

// guarded answers those who may ask.
func (b *block) guarded(w *walk, q *dns.Msg) result {
	if len(b.c.ACL) > 0 && w.depth == 0 {
		switch b.permit(q, w.client) {
		case config.Deny:
			return refuse(q, dns.RcodeRefused)
		case config.Filter:
			return answered(reply(q, dns.RcodeSuccess))
		case config.Drop:
			return result{}
		}
	}
	if b.c.Any && q.Question[0].Qtype == dns.TypeANY {
		a := reply(q, dns.RcodeSuccess)
		a.Answer = []dns.RR{&dns.HINFO{Hdr: header(q.Question[0].Name, dns.TypeHINFO, anyTTL), Cpu: "ANY obsoleted", Os: "See RFC 8482"}}
		return answered(a)
	}
	if len(b.rewrites) == 0 {
		return b.inside(w, q)
	}
	return b.rewritten(w, q)
}

// anyTTL is that of the record which stands for all, in seconds.
const anyTTL = 8482

func header(name string, typ uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: name, Rrtype: typ, Class: dns.ClassINET, Ttl: ttl}
}

// inside asks one after the other who may know the name.
func (b *block) inside(w *walk, q *dns.Msg) result {
	name := dns.CanonicalName(q.Question[0].Name)
	if r := b.fromTemplates(w, q, name); !r.next {
		return r
	}
	if q.Question[0].Qclass != dns.ClassINET {
		return refuse(q, dns.RcodeRefused)
	}
	if typ := q.Question[0].Qtype; typ == dns.TypeAXFR || typ == dns.TypeIXFR {
		return refuse(q, dns.RcodeRefused)
	}
	if b.hosts != nil {
		if r := b.hosts.answer(q, name); !r.next {
			return r
		}
	}
	if b.c.Cluster != nil {
		if r := b.fromCluster(w, q, name); !r.next {
			return r
		}
	}
	for _, f := range b.files {
		if r := f.answer(w, q, name); !r.next {
			return r
		}
	}
	return b.fromServers(w, q, name)
}

// fromCluster answers from the view. A name that falls through is one of the domain that does not exist.
func (b *block) fromCluster(w *walk, q *dns.Msg, name string) result {
	if len(b.c.Cluster.Reverse) == 0 && config.Under(name, "arpa.") {
		return next
	}
	f := find(w.view, q.Question[0].Name, q.Question[0].Qtype)
	switch {
	case f.Kind == answers.Odd:
		return refuse(q, dns.RcodeFormatError)
	case f.Kind == answers.Foreign:
		return next
	case f.Rcode == dns.RcodeNameError && len(f.Answer) == 0 && config.Under(name, b.c.Cluster.Domain) && b.c.Cluster.Fall.Through(name) && b.beyond(name):
		return next
	}
	a := reply(q, f.Rcode)
	a.Authoritative = f.Rcode != dns.RcodeServerFailure
	a.Answer, a.Ns, a.Extra = f.Answer, f.Authority, f.Extra
	shuffle(a.Answer)
	r := result{msg: a, zone: answers.Cluster}
	if f.Outside != "" {
		w.chase(&r, q, f.Outside)
	}
	return r
}

// beyond reports whether a name of the cluster's domain that does not exist there has somebody else to ask in the block.
func (b *block) beyond(name string) bool {
	return slices.ContainsFunc(b.files, func(f *file) bool { return config.Under(name, f.zone) }) ||
		slices.ContainsFunc(b.forwards, func(f *forwarder) bool { return b.mayAsk(f, name) })
}

// leaves reports whether that may be the case for any name.
func (b *block) leaves() bool {
	c := b.c.Cluster
	return c.Fall.On && (slices.ContainsFunc(b.files, func(f *file) bool { return config.Overlap(f.zone, c.Domain) }) ||
		slices.ContainsFunc(b.forwards, func(f *forwarder) bool { return config.Under(f.c.Zone, c.Domain) }))
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

// chase adds what the target of a CNAME leads to, whichever block has it; the rcode is the target's (RFC 6604). Half an
// answer is none.
func (w *walk) chase(r *result, q *dns.Msg, target string) {
	a := r.msg
	fail := func() {
		a.Rcode, a.Answer, a.Ns, a.Extra, a.Authoritative = dns.RcodeServerFailure, nil, nil, nil, false
	}
	if w.depth >= mostCNAMEs {
		fail()
		return
	}
	sub := q.Copy()
	sub.Question[0].Name = target
	deeper := *w
	deeper.depth++
	up := deeper.answer(sub)
	switch {
	case up.foreign:
		r.outside = target
	case up.outside != "":
		r.outside = up.outside
		a.Answer = append(a.Answer, up.msg.Answer...)
	case up.msg == nil || up.msg.Rcode != dns.RcodeSuccess && up.msg.Rcode != dns.RcodeNameError:
		fail()
	default:
		a.Rcode, a.Truncated = up.msg.Rcode, up.msg.Truncated
		a.Answer, a.Ns = append(a.Answer, up.msg.Answer...), up.msg.Ns
	}
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
