package server

import (
	"sync"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics counts questions under CoreDNS's names, so that dashboards made for it go on working. Each UDP socket counts
// in a tally of its own; they are added up when somebody asks.
type Metrics struct {
	server string
	names  [zones]string
	shared *tally // of everything but the UDP sockets' own answers

	mu    sync.Mutex
	all   []*tally // for ever: a counter never goes back
	spare []*tally

	requests, responses, duration, questionSize, answerSize *prometheus.Desc
}

// NewMetrics makes the metrics of a server whose zone is domain, with a final dot.
func NewMetrics(domain string) *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("coredns_dns_"+name, help, append([]string{"server", "zone", "view"}, labels...), nil)
	}
	m := &Metrics{server: "dns://:53", names: [zones]string{".", domain, "arpa."}, shared: &tally{},
		requests:     desc("requests_total", "DNS questions by zone, protocol, address family (1 IPv4, 2 IPv6) and type.", "proto", "family", "type"),
		responses:    desc("responses_total", "DNS answers by zone, response code and what answered.", "rcode", "plugin"),
		duration:     desc("request_duration_seconds", "Time from reading a question, or the batch of questions that it came in, to having sent the answer."),
		questionSize: desc("request_size_bytes", "Size of questions.", "proto"),
		answerSize:   desc("response_size_bytes", "Size of answers.", "proto"),
	}
	m.all = []*tally{m.shared}
	return m
}

// seen counts one question that was answered apart from a UDP socket's loop.
func (m *Metrics) seen(s seen) {
	m.shared.count(s)
	m.shared.took(s.zone, 1, s.took)
}

// borrow returns a tally for one goroutine alone.
func (m *Metrics) borrow() *tally {
	m.mu.Lock()
	defer m.mu.Unlock()
	if n := len(m.spare); n > 0 {
		t := m.spare[n-1]
		m.spare = m.spare[:n-1]
		return t
	}
	t := &tally{}
	m.all = append(m.all, t)
	return t
}

// giveBack ends the use of a tally; what it counted stays.
func (m *Metrics) giveBack(t *tally) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.spare = append(m.spare, t)
}

// Describe and Collect make Metrics a prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{m.requests, m.responses, m.duration, m.questionSize, m.answerSize} {
		ch <- d
	}
}

// Collect sends the current values of all series that have counted anything.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	sum := m.sum()
	for z, zone := range m.names {
		m.collectZone(ch, sum, z, zone)
		for tcp, proto := range protos {
			m.collectSizes(ch, m.questionSize, &sum.question[tcp][z], zone, proto)
			m.collectSizes(ch, m.answerSize, &sum.answer[tcp][z], zone, proto)
			for v6, family := range [2]string{"1", "2"} {
				for t := range sum.requests[tcp][v6][z] {
					counter(ch, m.requests, sum.requests[tcp][v6][z][t].Load(), m.server, zone, "", proto, family, typeName(t))
				}
			}
		}
	}
}

var protos = [2]string{"udp", "tcp"}

// collectZone sends answers and durations of one zone.
func (m *Metrics) collectZone(ch chan<- prometheus.Metric, sum *tally, z int, zone string) {
	for up, plugin := range [2]string{"kubernetes", "forward"} {
		for rcode := range sum.responses[up][z] {
			counter(ch, m.responses, sum.responses[up][z][rcode].Load(), m.server, zone, "", dns.RcodeToString[rcode], plugin)
		}
	}
	h := &sum.durations[z]
	buckets, at, n := map[float64]uint64{}, firstDuration, uint64(0)
	for i := range h.counts {
		n += h.counts[i].Load()
		if i < len(h.counts)-1 {
			buckets[at.Seconds()] = n
			at *= 2
		}
	}
	if n > 0 {
		ch <- prometheus.MustNewConstHistogram(m.duration, n, float64(h.sum.Load())/1e9, buckets, m.server, zone, "")
	}
}

func (m *Metrics) collectSizes(ch chan<- prometheus.Metric, d *prometheus.Desc, h *sizeCounts, zone, proto string) {
	buckets, n := map[float64]uint64{}, uint64(0)
	for i := range h.counts {
		n += h.counts[i].Load()
		if i < len(sizes) {
			buckets[float64(sizes[i])] = n
		}
	}
	if n > 0 {
		ch <- prometheus.MustNewConstHistogram(d, n, float64(h.sum.Load()), buckets, m.server, zone, "", proto)
	}
}

func counter(ch chan<- prometheus.Metric, d *prometheus.Desc, n uint64, labels ...string) {
	if n > 0 {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
}

// sum adds all tallies up.
func (m *Metrics) sum() *tally {
	sum := &tally{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.all {
		sum.add(t)
	}
	return sum
}

func typeName(i int) string {
	if i < len(types) {
		return dns.TypeToString[types[i]]
	}
	return "other"
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}
