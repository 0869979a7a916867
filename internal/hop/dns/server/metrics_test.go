package server

import (
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus/testutil"
)

func TestQuestionsAreCountedUnderCoreDNSNames(t *testing.T) {
	m := NewMetrics("cluster.local.")
	s, addr := start(t, Options{Upstream: world, Metrics: m})
	ask(t, "udp", addr, new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA))
	ask(t, "tcp", addr, new(dns.Msg).SetQuestion("nope.shop.svc.cluster.local.", dns.TypeAAAA))
	ask(t, "udp", addr, new(dns.Msg).SetQuestion("example.com.", dns.TypeLOC))
	if err := s.Close(t.Context()); err != nil { // all is counted
		t.Fatal(err)
	}
	want := `
# HELP coredns_dns_requests_total DNS questions by zone, protocol, address family (1 IPv4, 2 IPv6) and type.
# TYPE coredns_dns_requests_total counter
coredns_dns_requests_total{family="1",proto="tcp",server="dns://:53",type="AAAA",view="",zone="cluster.local."} 1
coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="A",view="",zone="cluster.local."} 1
coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="other",view="",zone="."} 1
# HELP coredns_dns_responses_total DNS answers by zone, response code and what answered.
# TYPE coredns_dns_responses_total counter
coredns_dns_responses_total{plugin="forward",rcode="NOERROR",server="dns://:53",view="",zone="."} 1
coredns_dns_responses_total{plugin="kubernetes",rcode="NOERROR",server="dns://:53",view="",zone="cluster.local."} 1
coredns_dns_responses_total{plugin="kubernetes",rcode="NXDOMAIN",server="dns://:53",view="",zone="cluster.local."} 1
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "coredns_dns_requests_total", "coredns_dns_responses_total"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.CollectAndLint(m); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	if n := testutil.CollectAndCount(m, "coredns_dns_request_duration_seconds"); n != 2 {
		t.Errorf("%d histograms, want one per zone asked", n)
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := NewMetrics("cluster.local.")
	if n := testing.AllocsPerRun(100, func() { m.seen(seen{typ: dns.TypeA, zone: 1}) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestSizesAndTimesFallIntoCoreDNSBuckets(t *testing.T) {
	for n, want := range map[int]int{0: 0, 1: 1, 100: 1, 101: 2, 400: 4, 401: 5, 511: 5, 512: 6, 1023: 6, 1232: 7, 65_535: 14} {
		if got := sizePlace(n); got != want {
			t.Errorf("%d bytes: bucket %d, want %d", n, got, want)
		}
	}
	for d, want := range map[time.Duration]int{-1: 0, 0: 0, 250 * time.Microsecond: 0, 250*time.Microsecond + 1: 1, 500 * time.Microsecond: 1,
		500*time.Microsecond + 1: 2, time.Millisecond: 2, 8192 * time.Millisecond: 15, 8193 * time.Millisecond: 16, time.Hour: 16} {
		if got := durationPlace(d); got != want {
			t.Errorf("%v: bucket %d, want %d", d, got, want)
		}
	}
}

func TestWhatASocketCountedStaysWhenItIsClosed(t *testing.T) {
	m := NewMetrics("cluster.local.")
	for range 3 {
		s, addr := start(t, Options{Upstream: world, Metrics: m, Sockets: 2})
		ask(t, "udp", addr, new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA))
		if err := s.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	want := `
# HELP coredns_dns_requests_total DNS questions by zone, protocol, address family (1 IPv4, 2 IPv6) and type.
# TYPE coredns_dns_requests_total counter
coredns_dns_requests_total{family="1",proto="udp",server="dns://:53",type="A",view="",zone="cluster.local."} 3
`
	if err := testutil.CollectAndCompare(m, strings.NewReader(want), "coredns_dns_requests_total"); err != nil {
		t.Error(err)
	}
	if len(m.all) > 3 {
		t.Errorf("%d tallies for two sockets at a time", len(m.all))
	}
}
