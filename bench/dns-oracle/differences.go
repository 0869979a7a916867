package main

import (
	"slices"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
)

// difference is one that is meant, by its key in docs/differences.md.
type difference struct {
	key string
	is  func(s *state, q question, core, our answer) bool
}

// differences are those that a random case can show. Each says as exactly as it can what both answer, so that it hides no other.
var differences = []difference{
	{"dns-srv-bare", func(_ *state, q question, core, our answer) bool {
		return q.typ == dns.TypeSRV && !strings.HasPrefix(q.name, "_") && noData(our) && core.rcode == "NOERROR" && !core.empty()
	}},
	{"dns-srv-address", func(_ *state, q question, core, our answer) bool {
		return (q.typ == dns.TypeA || q.typ == dns.TypeAAAA) && q.below() == 2 && strings.HasPrefix(q.name, "_") && noData(our) && core.rcode == "NOERROR"
	}},
	{"dns-proto", func(_ *state, q question, core, our answer) bool {
		return q.below() == 1 && strings.HasPrefix(q.name, "_") && nxdomain(core) && noData(our)
	}},
	{"dns-endpoint-of-clusterip", func(_ *state, q question, core, our answer) bool {
		return q.clusterIP() && q.below() == 1 && nxdomain(our) && core.rcode == "NOERROR"
	}},
	{"dns-endpoint-of-clusterip", func(s *state, q question, core, our answer) bool {
		return q.isReverse() && core.rcode == "NOERROR" && s.onlyMoreOfClusterIPs(core, our)
	}},
	{"dns-empty-namespace", func(_ *state, q question, core, our answer) bool {
		l := q.labels()
		return len(l) == 4 && l[1] == "svc" && nxdomain(our) && noData(core)
	}},
	{"dns-parent-txt", func(_ *state, q question, core, our answer) bool {
		l := q.labels()
		return q.typ == dns.TypeTXT && (len(l) == 2 || len(l) >= 3 && len(l) <= 4 && l[len(l)-3] == "svc") && nxdomain(core) && noData(our)
	}},
	{"dns-version-type", func(_ *state, q question, core, our answer) bool {
		return q.labels()[0] == "dns-version" && q.typ != dns.TypeTXT && nxdomain(core) && noData(our)
	}},
	{"dns-name-server", func(_ *state, q question, core, our answer) bool {
		return q.typ == dns.TypeNS && len(q.labels()) == 2 && len(our.records) == 1
	}},
	{"dns-missing-soa", func(_ *state, q question, core, our answer) bool {
		return (q.typ == dns.TypeSOA || q.typ == dns.TypeNS) && noData(core) && nxdomain(our)
	}},
	{"dns-reverse-ours", func(_ *state, q question, core, our answer) bool {
		return q.isReverse() && core.rcode == "NXDOMAIN" && core.authority == "" && nxdomain(our)
	}},
	{"dns-reverse-start", func(_ *state, q question, core, our answer) bool {
		return q.isReverse() && core.rcode == "NXDOMAIN" && noData(our) && len(q.labels()) != 6 && len(q.labels()) != 34
	}},
	{"dns-reverse-type", func(_ *state, q question, core, our answer) bool {
		return q.isReverse() && q.typ != dns.TypePTR && noData(our) && core.empty()
	}},
	{"dns-pod-parent", func(_ *state, q question, core, our answer) bool {
		l := q.labels()
		return len(l) >= 3 && len(l) <= 4 && l[len(l)-3] == "pod" && nxdomain(core) && noData(our)
	}},
	{"dns-externalname-address", func(_ *state, q question, core, our answer) bool {
		return q.external() && q.about.Spec.ExternalName == "192.0.2.7" && noData(our)
	}},
	{"dns-externalname-type", func(_ *state, q question, core, our answer) bool {
		return q.external() && core.empty() && !our.empty()
	}},
	{"dns-externalname-rcode", func(_ *state, q question, core, our answer) bool {
		return q.external() && core.rcode == "NOERROR" && our.rcode == "NXDOMAIN" && !core.empty() && slices.Equal(core.records, our.records)
	}},
	{"dns-udp-size", func(_ *state, q question, core, our answer) bool {
		return !q.tcp && q.edns > 1232 && our.tc && !core.tc && core.size > 1232
	}},
	{"dns-compression", func(_ *state, q question, core, our answer) bool {
		return !q.tcp && core.tc && !our.tc && our.size <= max(512, int(q.edns))
	}},
}

func noData(a answer) bool { return a.is("NOERROR", 0) && a.authority == "SOA" }

func nxdomain(a answer) bool { return a.is("NXDOMAIN", 0) && a.authority == "SOA" }

// onlyMoreOfClusterIPs reports whether all that CoreDNS knows beyond podway are endpoints of Services with a ClusterIP.
func (s *state) onlyMoreOfClusterIPs(core, our answer) bool {
	known := map[string]bool{}
	for _, r := range our.records {
		known[r] = true
	}
	more := false
	for _, r := range core.records {
		if known[r] {
			continue
		}
		target := r[strings.LastIndexByte(r, ' ')+1:]
		_, parent, _ := strings.Cut(target, ".")
		if svc := s.serviceAt(parent); svc == nil || svc.Spec.ClusterIP == corev1.ClusterIPNone {
			return false
		}
		more = true
	}
	return more
}

func (s *state) serviceAt(name string) *corev1.Service {
	for _, svc := range s.services {
		if name == svc.Name+"."+svc.Namespace+".svc.cluster.local." {
			return svc
		}
	}
	return nil
}
