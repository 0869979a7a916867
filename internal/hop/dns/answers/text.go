package answers

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

// maxChain is the longest chain of CNAMEs that is followed within the cluster.
const maxChain = 8

// Found is what a question leads to within the cluster.
type Found struct {
	Kind      Kind // Answered, Foreign (not a name of the cluster) or Odd (no valid name)
	Rcode     int
	Answer    []dns.RR
	Authority []dns.RR
	Extra     []dns.RR
	Outside   string // target of the last CNAME when it must be looked up elsewhere
}

// Find looks a name and type up and follows CNAMEs. The rcode is that of the last name (RFC 6604); a chain without end
// is SERVFAIL.
func (v *View) Find(name string, typ uint16) Found {
	var f Found
	for range maxChain {
		msg, r := v.ask(name, typ)
		switch {
		case r.Kind == Odd || r.Kind == Foreign && len(f.Answer) == 0:
			return Found{Kind: r.Kind}
		case r.Kind == Foreign:
			f.Outside = name
			return f
		case r.Kind == Answered:
			f.Rcode, f.Authority, f.Extra = r.Rcode, msg.Ns, msg.Extra
			f.Answer = append(f.Answer, msg.Answer...)
			return f
		}
		msg, r = v.ask(name, dns.TypeCNAME)
		if r.Kind != Answered || len(msg.Answer) == 0 {
			return Found{Kind: Odd}
		}
		f.Answer = append(f.Answer, msg.Answer...)
		name = msg.Answer[0].(*dns.CNAME).Target
	}
	f.Rcode = dns.RcodeServerFailure
	return f
}

// ask sends one question through Answer and unpacks what comes.
func (v *View) ask(name string, typ uint16) (*dns.Msg, Result) {
	var q, a dns.Msg
	q.SetQuestion(dns.Fqdn(name), typ)
	wire, err := q.Pack()
	if err != nil {
		return nil, Result{Kind: Odd}
	}
	out, r := v.Answer(new(Query), nil, wire, true, 0)
	if r.Kind != Answered {
		return nil, r
	}
	if err := a.Unpack(out); err != nil {
		return nil, Result{Kind: Odd}
	}
	return &a, r
}

// Types returns the types of records at a name, ascending.
func (v *View) Types(name string) []uint16 {
	var m dns.Msg
	var q Query
	m.SetQuestion(dns.Fqdn(name), dns.TypeA)
	wire, err := m.Pack()
	if err != nil || !q.parse(wire) {
		return nil
	}
	var out []uint16
	n := v.find(&q)
	if n.e != nil && n.exists {
		for _, s := range n.e.sets {
			out = append(out, s.typ)
		}
		if n.e == v.zone.apex {
			out = append(out, dns.TypeSOA)
		}
	}
	if n.addr.IsValid() {
		out = append(out, addressType(n.addr))
	}
	slices.Sort(out)
	return out
}

// Text is every record of the cluster's names, one a line, sorted: "cart.shop.svc.cluster.local. 5 IN A 10.96.0.7".
func (v *View) Text() string {
	var lines []string
	add := func(name string) {
		types := v.Types(name)
		if len(types) == 0 {
			lines = append(lines, name)
		}
		for _, t := range types {
			msg, _ := v.ask(name, t)
			for _, rr := range msg.Answer {
				lines = append(lines, strings.ReplaceAll(rr.String(), "\t", " "))
			}
		}
	}
	for key, s := range v.services.All() {
		self := text(key) + "svc." + v.domain
		add(self)
		for below := range s.below {
			add(text(below) + self)
		}
	}
	for addr := range v.addrs.All() {
		name, _ := dns.ReverseAddr(addr.String())
		add(name)
	}
	for space, n := range v.spaces.All() {
		lines = append(lines, fmt.Sprintf("%ssvc.%s ; Services: %d", text(space), v.domain, n))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}

// text spells labels in wire format, each with its dot.
func text(wire string) string {
	var b strings.Builder
	for len(wire) > 0 {
		b.WriteString(wire[1:1+wire[0]] + ".")
		wire = wire[1+wire[0]:]
	}
	return b.String()
}
