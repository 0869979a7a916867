package answers

import (
	"fmt"
	"testing"

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
	v, dst, scratch := view(t, options, shop()), make([]byte, 0, 65535), Query{}
	for _, name := range []string{"cart.shop.svc.cluster.local.", "web.shop.svc.cluster.local.", "nope.shop.svc.cluster.local.",
		"x.nope.a-rather-long-namespace-of-more-than-32-bytes.svc.cluster.local.", "_http._tcp.web.shop.svc.cluster.local.",
		"7.41.96.10.in-addr.arpa.", "shop.svc.cluster.local."} {
		wire, _ := question(name, dns.TypeA).Pack()
		if n := testing.AllocsPerRun(100, func() { v.Answer(&scratch, dst, wire, false, 3) }); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
