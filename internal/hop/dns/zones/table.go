package zones

import (
	"context"
	"strings"
	"sync/atomic"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
)

// Table is the blocks of one socket by their zones.
type Table struct {
	z      *Zones
	zones  map[string]*block // absolute, lower case
	direct atomic.Uint32     // what of the view may be answered where it was read
	part   atomic.Pointer[part]
	quick  atomic.Pointer[map[string]*quick] // by zone in wire format
}

// What may be answered from the view without asking a block.
const (
	nothing uint32 = iota
	forward        // the names of the cluster domain
	both           // reverse names too
)

func (z *Zones) table(s Socket) *Table {
	t := &Table{z: z, zones: map[string]*block{}}
	for _, b := range z.blocks {
		for _, k := range b.c.Keys {
			for _, a := range addresses(b.c) {
				if k.Port == s.Port && a == s.Addr {
					t.zones[k.Zone] = b
				}
			}
		}
	}
	t.weigh()
	return t
}

// block is the one that serves a name (absolute, lower case), or nil.
func (t *Table) block(name string) *block {
	for at := 0; ; {
		if b := t.zones[name[at:]]; b != nil && name[at:] != "" {
			return b
		}
		dot := strings.IndexByte(name[at:], '.')
		if dot < 0 || at+dot+1 >= len(name) {
			return t.zones["."]
		}
		at += dot + 1
	}
}

// weigh decides how much of the view, and which forwarded names, may be answered where a question was read: what no setting
// of any block can change.
func (t *Table) weigh() {
	level := t.weighed()
	all := make(map[string]*quick, len(t.zones))
	of := map[*block]*quick{}
	for zone, b := range t.zones {
		if of[b] == nil {
			of[b] = b.quick(level)
		}
		all[string(wire(zone))] = of[b]
	}
	t.quick.Store(&all)
	t.direct.Store(level)
}

func (t *Table) weighed() uint32 {
	domain := t.z.domain
	if domain == "" {
		return nothing
	}
	b := t.block(domain)
	if b == nil || b.c.Cluster == nil || b.c.Cluster.Domain != domain || b.touches(domain) || b.leaves() {
		return nothing
	}
	for zone, other := range t.zones {
		if other != b && config.Under(zone, domain) {
			return nothing
		}
	}
	for _, arpa := range []string{"in-addr.arpa.", "ip6.arpa."} {
		if t.block(arpa) != b || b.touches(arpa) {
			return forward
		}
		for zone, other := range t.zones {
			if other != b && config.Under(zone, arpa) {
				return forward
			}
		}
	}
	if len(b.c.Cluster.Reverse) == 0 {
		return forward
	}
	return both
}

// part is a view as much of which is answered where a question was read.
type part struct {
	of, view *answers.View
	level    uint32
}

// View is the part of the cluster's view that is answered where a question was read. All else must go through Answer. It
// allocates only when view or configuration have changed.
func (t *Table) View() *answers.View {
	v, level := t.z.o.View(), t.direct.Load()
	if level == both {
		return v
	}
	if p := t.part.Load(); p != nil && p.of == v && p.level == level {
		return p.view
	}
	p := &part{of: v, level: level}
	if p.view = v.None(); level == forward {
		p.view = v.Forward()
	}
	t.part.Store(p)
	return p.view
}

// Answer answers a question that could be read; a nil message is no answer at all.
func (t *Table) Answer(ctx context.Context, q *dns.Msg, c Client) (*dns.Msg, answers.Zone) {
	switch opt := q.IsEdns0(); {
	case q.Opcode != dns.OpcodeQuery:
		return reply(q, dns.RcodeNotImplemented), answers.Elsewhere
	case len(q.Question) != 1:
		return reply(q, dns.RcodeFormatError), answers.Elsewhere
	case opt != nil && opt.Version() != 0:
		return reply(q, dns.RcodeBadVers), answers.Elsewhere
	}
	if _, ok := dns.IsDomainName(q.Question[0].Name); !ok {
		return reply(q, dns.RcodeFormatError), answers.Elsewhere
	}
	if t.z.probed(q.Question[0].Name) {
		return reply(q, dns.RcodeRefused), answers.Elsewhere
	}
	w := walk{ctx: ctx, t: t, view: t.z.o.View(), client: c}
	r := w.answer(q)
	return r.msg, r.zone
}

// Find says what a name and type lead to without asking any other server: Foreign when one would be asked.
func (t *Table) Find(v *answers.View, name string, typ uint16) answers.Found {
	if _, ok := dns.IsDomainName(name); !ok {
		return answers.Found{Kind: answers.Odd}
	}
	w := walk{ctx: context.Background(), t: t, view: v, offline: true}
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), typ)
	r := w.answer(q)
	switch {
	case r.foreign || r.msg == nil:
		return answers.Found{Kind: answers.Foreign}
	case r.msg.Rcode == dns.RcodeFormatError:
		return answers.Found{Kind: answers.Odd}
	}
	return answers.Found{Rcode: r.msg.Rcode, Answer: r.msg.Answer, Authority: r.msg.Ns, Extra: r.msg.Extra, Outside: r.outside}
}

func reply(q *dns.Msg, rcode int) *dns.Msg {
	a := new(dns.Msg).SetRcode(q, rcode)
	a.RecursionDesired, a.CheckingDisabled = q.RecursionDesired, q.CheckingDisabled
	return a
}
