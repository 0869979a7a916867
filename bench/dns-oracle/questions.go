package main

import (
	"fmt"
	"strings"

	"github.com/miekg/dns"
	corev1 "k8s.io/api/core/v1"
)

// question is one that both servers are asked.
type question struct {
	name  string
	typ   uint16
	edns  uint16 // size offered; 0 = no OPT
	tcp   bool
	about *corev1.Service // nil = none in particular
}

func (q question) String() string {
	how := "udp"
	if q.tcp {
		how = "tcp"
	}
	return fmt.Sprintf("%s %s (%s, EDNS %d)", dns.TypeToString[q.typ], q.name, how, q.edns)
}

var types = []uint16{dns.TypeA, dns.TypeA, dns.TypeA, dns.TypeAAAA, dns.TypeAAAA, dns.TypeSRV, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeCNAME,
	dns.TypeMX, dns.TypeNS, dns.TypeSOA, dns.TypeHTTPS}

// question makes one about what there is, or about what is next to it.
func (s *state) question() question {
	q := question{typ: pick(s.r, types), edns: pick(s.r, []uint16{0, 0, 512, 1232, 4096}), tcp: s.chance(15)}
	switch p := s.r.IntN(100); {
	case p < 60:
		q.about = pick(s.r, s.services)
		q.name = s.nameOf(q.about)
	case p < 72:
		q.typ = pick(s.r, []uint16{dns.TypePTR, dns.TypePTR, dns.TypePTR, dns.TypeA})
		q.name = s.reverse()
	case p < 82:
		addr := strings.NewReplacer(".", "-", ":", "-").Replace(s.podIP())
		q.name = fmt.Sprintf("%s.%s.pod.cluster.local.", addr, pick(s.r, s.namespaces))
	default:
		q.name = pick(s.r, []string{"cluster.local.", "svc.cluster.local.", "pod.cluster.local.", "dns-version.cluster.local.", "nothing.cluster.local.",
			"ns-0.svc.cluster.local.", "ns-9.svc.cluster.local.", "x.svc.cluster.local.", "www.example.com.ns-0.svc.cluster.local.",
			"www.example.com.cluster.local.", "a.b.c.d.ns-0.svc.cluster.local.", "*.ns-0.svc.cluster.local.", "svc-0.*.svc.cluster.local.",
			"_http._tcp.ns-0.svc.cluster.local.", "ns-0.pod.cluster.local.", "cluster.local.ns-0.svc.cluster.local."})
	}
	if s.chance(30) {
		q.name = mixCase(s, q.name)
	}
	return q
}

// nameOf is a name of a Service or one next to it.
func (s *state) nameOf(svc *corev1.Service) string {
	self := fmt.Sprintf("%s.%s.svc.cluster.local.", svc.Name, svc.Namespace)
	switch p := s.r.IntN(100); {
	case p < 40:
		return self
	case p < 60:
		port, proto := pick(s.r, portNames), pick(s.r, []string{"tcp", "udp", "sctp"})
		if len(svc.Spec.Ports) > 0 && s.chance(80) {
			p := pick(s.r, svc.Spec.Ports)
			port, proto = p.Name, strings.ToLower(string(p.Protocol))
		}
		if port == "" {
			port = "x"
		}
		return fmt.Sprintf("_%s._%s.%s", port, proto, self)
	case p < 65:
		return "_tcp." + self
	case p < 90:
		for range 10 {
			if len(s.slices) == 0 {
				break
			}
			sl := pick(s.r, s.slices)
			if !strings.HasPrefix(sl.Name, svc.Name+"-") || len(sl.Endpoints) == 0 {
				continue
			}
			e := pick(s.r, sl.Endpoints)
			if e.Hostname != nil && s.chance(70) {
				return *e.Hostname + "." + self
			}
			return strings.NewReplacer(".", "-", ":", "-").Replace(e.Addresses[0]) + "." + self
		}
		return "nope-0." + self
	case p < 95:
		return "x." + self
	}
	return fmt.Sprintf("%s.ns-9.svc.cluster.local.", svc.Name)
}

// reverse is the reverse name of an address that somebody may have.
func (s *state) reverse() string {
	addr := s.podIP()
	if s.chance(30) {
		addr = s.podIP6()
	}
	if svc := pick(s.r, s.services); s.chance(50) && len(svc.Spec.ClusterIPs) > 0 && svc.Spec.ClusterIPs[0] != corev1.ClusterIPNone {
		addr = pick(s.r, svc.Spec.ClusterIPs)
	}
	name, err := dns.ReverseAddr(addr)
	if err != nil {
		panic(err)
	}
	if s.chance(10) {
		_, name, _ = strings.Cut(name, ".")
	}
	return name
}

func mixCase(s *state, name string) string {
	b := []byte(name)
	for i, c := range b {
		if 'a' <= c && c <= 'z' && s.chance(50) {
			b[i] = c - 'a' + 'A'
		}
	}
	return string(b)
}
