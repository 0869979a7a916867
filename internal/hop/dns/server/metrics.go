package server

import (
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// seen is one question that was answered.
type seen struct {
	tcp, v6, upstream bool
	typ               uint16
	zone              answers.Zone
	rcode             int
	took              time.Duration
}

// types are the question types with a label of their own; all others are "other", as in CoreDNS.
var types = []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeCNAME, dns.TypeSOA, dns.TypeNS,
	dns.TypeMX, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeDS, dns.TypeDNSKEY, dns.TypeNAPTR, dns.TypeANY}

const (
	rcodes = 24 // including the extended ones, the last stands for all above
	zones  = 3
)

// Metrics counts questions under CoreDNS's names, so that dashboards made for it go on working. The series in use are
// kept at hand: counting costs no look-up.
type Metrics struct {
	server    string
	requests  *prometheus.CounterVec
	responses *prometheus.CounterVec
	duration  *prometheus.HistogramVec

	byType  [2][2][zones][]atomic.Pointer[prometheus.Counter] // tcp, IPv6, zone, type
	byRcode [2][zones][rcodes]atomic.Pointer[prometheus.Counter]
	byZone  [zones]atomic.Pointer[prometheus.Observer]
	names   [zones]string
}

// NewMetrics makes the metrics of a server whose zone is domain, with a final dot.
func NewMetrics(domain string) *Metrics {
	labels := []string{"server", "zone", "view"}
	m := &Metrics{server: "dns://:53", names: [zones]string{".", domain, "arpa."},
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coredns_dns_requests_total",
			Help: "DNS questions by zone, protocol, address family (1 IPv4, 2 IPv6) and type."}, append(labels, "proto", "family", "type")),
		responses: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coredns_dns_responses_total",
			Help: "DNS answers by zone, response code and what answered."}, append(labels, "rcode", "plugin")),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "coredns_dns_request_duration_seconds",
			Help: "Time from reading a question to having sent its answer.", Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16)}, labels),
	}
	for i := range m.byType {
		for j := range m.byType[i] {
			for z := range zones {
				m.byType[i][j][z] = make([]atomic.Pointer[prometheus.Counter], len(types)+1)
			}
		}
	}
	return m
}

// Describe and Collect make Metrics a prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.requests.Describe(ch)
	m.responses.Describe(ch)
	m.duration.Describe(ch)
}

// Collect sends the current values.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.requests.Collect(ch)
	m.responses.Collect(ch)
	m.duration.Collect(ch)
}

// seen counts one question.
func (m *Metrics) seen(s seen) {
	t, zone := typeIndex(s.typ), m.names[s.zone]
	at(&m.byType[index(s.tcp)][index(s.v6)][s.zone][t], func() prometheus.Counter {
		name := "other"
		if t < len(types) {
			name = dns.TypeToString[types[t]]
		}
		return m.requests.WithLabelValues(m.server, zone, "", pick(s.tcp, "tcp", "udp"), pick(s.v6, "2", "1"), name)
	}).Inc()
	rcode := min(s.rcode, rcodes-1)
	at(&m.byRcode[index(s.upstream)][s.zone][rcode], func() prometheus.Counter {
		return m.responses.WithLabelValues(m.server, zone, "", dns.RcodeToString[rcode], pick(s.upstream, "forward", "kubernetes"))
	}).Inc()
	at(&m.byZone[s.zone], func() prometheus.Observer {
		return m.duration.WithLabelValues(m.server, zone, "")
	}).Observe(s.took.Seconds())
}

// at returns the series in a slot, made on first use.
func at[T any](slot *atomic.Pointer[T], make func() T) T {
	if p := slot.Load(); p != nil {
		return *p
	}
	x := make()
	slot.Store(&x)
	return x
}

func typeIndex(typ uint16) int {
	for i, t := range types {
		if t == typ {
			return i
		}
	}
	return len(types)
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

func pick(b bool, yes, no string) string {
	if b {
		return yes
	}
	return no
}
