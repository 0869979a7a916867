package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
)

// answer is what counts of an answer.
type answer struct {
	rcode     string
	tc        bool
	records   []string // of the answer section, sorted
	authority string   // types, in order
	size      int
}

func (a answer) String() string {
	tc := ""
	if a.tc {
		tc = " TC"
	}
	return fmt.Sprintf("%s%s [%s] authority %s, %d bytes", a.rcode, tc, strings.Join(a.records, "; "), a.authority, a.size)
}

func read(m *dns.Msg, size int) answer {
	a := answer{rcode: dns.RcodeToString[m.Rcode], tc: m.Truncated, size: size}
	for _, rr := range m.Answer {
		h := rr.Header()
		text := strings.ToLower(strings.TrimPrefix(rr.String(), h.String()))
		if srv, ok := rr.(*dns.SRV); ok { // the weights of equals are nobody's promise
			text = fmt.Sprintf("%d %d %s", srv.Priority, srv.Port, strings.ToLower(srv.Target))
		}
		if soa, ok := rr.(*dns.SOA); ok {
			text = strings.ToLower(soa.Ns + " " + soa.Mbox)
		}
		a.records = append(a.records, strings.ToLower(h.Name)+" "+dns.TypeToString[h.Rrtype]+" "+text)
	}
	slices.Sort(a.records)
	a.records = slices.Compact(a.records)
	var kinds []string
	for _, rr := range m.Ns {
		kinds = append(kinds, dns.TypeToString[rr.Header().Rrtype])
	}
	a.authority = strings.Join(kinds, ",")
	return a
}

// equal compares as sets; of truncated answers only that they are truncated.
func (a answer) equal(b answer) bool {
	if a.rcode != b.rcode || a.tc != b.tc {
		return false
	}
	return a.tc || slices.Equal(a.records, b.records) && a.authority == b.authority
}

func (q question) labels() []string { return dns.SplitDomainName(strings.ToLower(q.name)) }

func (a answer) empty() bool { return len(a.records) == 0 }

func (a answer) is(rcode string, records int) bool {
	return a.rcode == rcode && len(a.records) == records
}

// below reports whether the question's name is below the Service that it is about, and by how many labels.
func (q question) below() int {
	if q.about == nil {
		return -1
	}
	self := fmt.Sprintf("%s.%s.svc.cluster.local.", q.about.Name, q.about.Namespace)
	name := strings.ToLower(q.name)
	if !dns.IsSubDomain(self, name) {
		return -1
	}
	return dns.CountLabel(name) - dns.CountLabel(self)
}

func (q question) external() bool {
	return q.about != nil && q.about.Spec.Type == corev1.ServiceTypeExternalName && q.below() == 0
}

func (q question) clusterIP() bool {
	return q.about != nil && q.about.Spec.Type != corev1.ServiceTypeExternalName && q.about.Spec.ClusterIP != corev1.ClusterIPNone
}

func (q question) isReverse() bool { return strings.HasSuffix(strings.ToLower(q.name), ".arpa.") }

// explain is the key of a difference, "" when it is none that is meant.
func explain(s *state, q question, core, our answer) string {
	for _, d := range differences {
		if d.is(s, q, core, our) {
			return d.key
		}
	}
	return ""
}
