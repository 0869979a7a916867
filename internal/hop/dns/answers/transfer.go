package answers

import (
	"iter"

	"github.com/miekg/dns"
)

// SOA is the record that begins and ends a transfer of the cluster domain.
func (v *View) SOA() dns.RR {
	m, _ := v.ask(v.domain, dns.TypeSOA)
	if m == nil || len(m.Answer) == 0 {
		return nil
	}
	return m.Answer[0]
}

// Records are all records of the cluster domain but its SOA, in no order: what a transfer of the zone holds. Reverse names
// and names of Pods, which are computed from what is asked, are not in it.
func (v *View) Records() iter.Seq[dns.RR] {
	return func(yield func(dns.RR) bool) {
		for _, name := range []string{v.domain, "ns.dns." + v.domain, "dns-version." + v.domain} {
			if !v.each(name, yield) {
				return
			}
		}
		for key, s := range v.services.All() {
			self := text(key) + "svc." + v.domain
			if !v.each(self, yield) {
				return
			}
			for below := range s.below {
				if !v.each(text(below)+self, yield) {
					return
				}
			}
		}
	}
}

// each yields the records of one name; a CNAME is not followed.
func (v *View) each(name string, yield func(dns.RR) bool) bool {
	for _, t := range v.Types(name) {
		if t == dns.TypeSOA {
			continue
		}
		m, r := v.ask(name, t)
		if r.Kind != Answered {
			continue
		}
		for _, rr := range m.Answer {
			if !yield(rr) {
				return false
			}
		}
	}
	return true
}
