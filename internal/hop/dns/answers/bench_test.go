package answers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/model"
)

// manyServices is a cluster of n Services, every tenth headless with 32 endpoints.
func manyServices(n int) *model.Snapshot {
	var objects []any
	for i := range n {
		ns, name := fmt.Sprint("ns-", i%50), fmt.Sprint("svc-", i)
		if i%10 != 0 {
			objects = append(objects, clusterIP(ns, name, fmt.Sprintf("10.%d.%d.%d", 96+i/65536, i/256%256, i%256)))
			continue
		}
		sl := slice(ns, name, name+"-a")
		for e := range 32 {
			sl.Endpoints = append(sl.Endpoints, endpoint(fmt.Sprintf("pod-%d=10.%d.%d.%d", e, 200+i/65536, i/256%256, i%256)))
		}
		objects = append(objects, headless(ns, name), sl)
	}
	return snapshot(objects...)
}

func BenchmarkAnswer(b *testing.B) {
	v := view(b, options, manyServices(5000))
	for _, c := range []struct {
		name, q string
		typ     uint16
	}{
		{"A", "svc-4321.ns-21.svc.cluster.local.", dns.TypeA},
		{"AAAA-nodata", "svc-4321.ns-21.svc.cluster.local.", dns.TypeAAAA},
		{"nxdomain", "example.com.ns-21.svc.cluster.local.", dns.TypeA},
		{"headless-A", "svc-4320.ns-20.svc.cluster.local.", dns.TypeA},
		{"SRV", "_http._tcp.svc-4321.ns-21.svc.cluster.local.", dns.TypeSRV},
		{"PTR", "225.16.96.10.in-addr.arpa.", dns.TypePTR},
	} {
		b.Run(c.name, func(b *testing.B) {
			q := question(c.q, c.typ)
			q.SetEdns0(1232, false)
			wire, _ := q.Pack()
			var scratch Query
			dst := make([]byte, 0, 65535)
			b.ReportAllocs()
			for turn := uint32(0); b.Loop(); turn++ {
				if _, r := v.Answer(&scratch, dst, wire, false, turn); r.Kind != Answered {
					b.Fatal(r.Kind)
				}
			}
		})
	}
}

func BenchmarkApplyOneServiceOf30000(b *testing.B) {
	s := manyServices(30_000)
	v := view(b, options, s)
	steps := [2]*model.Snapshot{s}
	builder := model.NewBuilder(s)
	builder.Put(clusterIP("ns-1", "svc-1", "10.96.250.250"))
	steps[1] = builder.Snapshot(s.Time)
	changes := [2]model.Change{model.Diff(steps[1], s), model.Diff(s, steps[1])}
	b.ReportAllocs()
	for i := 1; b.Loop(); i++ {
		if next, n := v.Apply(steps[i%2], changes[i%2]); n != 1 {
			b.Fatal(n)
		} else {
			v = next
		}
	}
}

func BenchmarkApplyAll5000(b *testing.B) {
	s := manyServices(5000)
	v, _ := New(options)
	for b.Loop() {
		v.Apply(s, model.Everything())
	}
}

func TestAnswersAllocateNothing(t *testing.T) {
	o := options
	o.PodRecords, o.PodsChecked = true, true
	b := model.NewBuilder(shop())
	b.Put(pod("shop", "p", "Running", "10.244.1.5", "fd00:244::5"))
	v, dst, scratch := view(t, o, b.Snapshot(time.Unix(1_700_000_000, 0))), make([]byte, 0, 65535), Query{}
	for kind, question := range map[string]string{
		"address":               "A cart.shop.svc.cluster.local.",
		"no data":               "AAAA cart.shop.svc.cluster.local.",
		"headless":              "A web.shop.svc.cluster.local.",
		"endpoint":              "A web-0.web.shop.svc.cluster.local.",
		"missing":               "A nope.shop.svc.cluster.local.",
		"missing, long":         "A x.nope.a-rather-long-namespace-of-more-than-32-bytes.svc.cluster.local.",
		"SRV":                   "SRV _http._tcp.cart.shop.svc.cluster.local.",
		"headless SRV":          "SRV _http._tcp.web.shop.svc.cluster.local.",
		"reverse":               "PTR 7.41.96.10.in-addr.arpa.",
		"reverse, IPv6":         "PTR 8.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.6.9.0.0.0.1.0.0.0.0.d.f.ip6.arpa.",
		"reverse, missing":      "PTR 1.0.96.10.in-addr.arpa.",
		"empty non-terminal":    "A shop.svc.cluster.local.",
		"search list":           "A www.example.com.svc.cluster.local.",
		"version":               "TXT dns-version.cluster.local.",
		"SOA":                   "SOA cluster.local.",
		"Pod":                   "A 10-244-1-5.shop.pod.cluster.local.",
		"Pod, IPv6":             "AAAA fd00-244--5.shop.pod.cluster.local.",
		"Pod, missing":          "A 10-244-1-9.shop.pod.cluster.local.",
		"Pod, no address":       "A web.shop.pod.cluster.local.",
		"CNAME itself":          "CNAME db.shop.svc.cluster.local.",
		"alias, for the slow":   "A db.shop.svc.cluster.local.",
		"foreign, for upstream": "A www.example.com.",
	} {
		typ, name, _ := strings.Cut(question, " ")
		for _, edns := range []bool{false, true} {
			m := new(dns.Msg).SetQuestion(name, dns.StringToType[typ])
			if edns {
				m.SetEdns0(1232, true)
			}
			wire, _ := m.Pack()
			if n := testing.AllocsPerRun(100, func() { v.Answer(&scratch, dst, wire, false, 3) }); n != 0 {
				t.Errorf("%s: %v allocations", kind, n)
			}
		}
	}
}
