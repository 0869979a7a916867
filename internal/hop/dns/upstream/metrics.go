package upstream

import (
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// lanes spread counters that are written with every answer, so that processors seldom share one.
const lanes = 16

// counts are what a Forwarder counts itself.
type counts struct {
	lanes                                [lanes]lane
	misses, rejected, prefetched, hedged atomic.Uint64
}

type lane struct {
	success, denial, stale atomic.Uint64
	_                      [40]byte
}

func (c *counts) hits() (success, denial, stale uint64) {
	for i := range c.lanes {
		success += c.lanes[i].success.Load()
		denial += c.lanes[i].denial.Load()
		stale += c.lanes[i].stale.Load()
	}
	return success, denial, stale
}

// Metrics counts for all Forwarders of a process under CoreDNS's names, so that dashboards made for it go on working.
type Metrics struct {
	mu         sync.Mutex
	forwarders []*Forwarder
	duration   *prometheus.HistogramVec
	checks     *prometheus.CounterVec
	broken     prometheus.Counter
}

const serverLabel = "dns://:53"

func cacheDesc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("coredns_cache_"+name, help, append([]string{"server"}, labels...), nil)
}

var (
	descEntries  = cacheDesc("entries", "Answers kept, by whether they have records (success) or not (denial).", "type", "zones", "view")
	descHits     = cacheDesc("hits_total", "Questions answered from the cache.", "type", "zones", "view")
	descMisses   = cacheDesc("misses_total", "Questions that upstream servers were asked.", "zones", "view")
	descRequests = cacheDesc("requests_total", "Questions that came to the cache.", "zones", "view")
	descPrefetch = cacheDesc("prefetch_total", "Popular answers fetched anew before their end.", "zones", "view")
	descStale    = cacheDesc("served_stale_total", "Answers given after their end because no server answered.", "zones", "view")
	descEvicted  = cacheDesc("evictions_total", "Answers that made room for others.", "type", "zones", "view")
	descRejected = prometheus.NewDesc("coredns_forward_max_concurrent_rejects_total", "Questions refused because too many were being asked.", nil, nil)
	descReused   = prometheus.NewDesc("coredns_proxy_conn_cache_hits_total", "Questions sent over a socket that was open.", []string{"proxy_name", "to", "proto"}, nil)
	descOpened   = prometheus.NewDesc("coredns_proxy_conn_cache_misses_total", "Sockets opened.", []string{"proxy_name", "to", "proto"}, nil)
	descBytes    = prometheus.NewDesc("podway_dns_cache_bytes", "Memory that kept answers take, about.", []string{"zones"}, nil)
	descHedged   = prometheus.NewDesc("podway_dns_hedged_questions_total", "Questions that a second server was asked because the first took long.", []string{"zones"}, nil)
)

// NewMetrics makes the metrics of all Forwarders that are given them.
func NewMetrics() *Metrics {
	labels := []string{"proxy_name", "to"}
	return &Metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "coredns_proxy_request_duration_seconds",
			Help: "Time that an upstream server took.", Buckets: prometheus.ExponentialBuckets(0.00025, 2, 16)}, append(labels, "rcode")),
		checks: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coredns_proxy_healthcheck_failures_total",
			Help: "Checks that an upstream server did not answer."}, labels),
		broken: prometheus.NewCounter(prometheus.CounterOpts{Name: "coredns_forward_healthcheck_broken_total",
			Help: "Questions asked while all upstream servers failed."}),
	}
}

func (m *Metrics) add(f *Forwarder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.forwarders = append(m.forwarders, f)
}

// drop forgets a Forwarder that is no longer in use.
func (m *Metrics) drop(f *Forwarder) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, x := range m.forwarders {
		if x == f {
			m.forwarders = append(m.forwarders[:i:i], m.forwarders[i+1:]...)
			return
		}
	}
}

// exchanged counts an answer, or with rcode -1 that none came.
func (m *Metrics) exchanged(to netip.AddrPort, rcode int, took time.Duration) {
	label := "timeout"
	if rcode >= 0 {
		label = dns.RcodeToString[rcode]
	}
	m.duration.WithLabelValues("forward", to.String(), label).Observe(took.Seconds())
}

func (m *Metrics) unhealthy(to netip.AddrPort) {
	m.checks.WithLabelValues("forward", to.String()).Inc()
}

// Describe and Collect make Metrics a prometheus.Collector.
func (m *Metrics) Describe(ch chan<- *prometheus.Desc) {
	m.duration.Describe(ch)
	m.checks.Describe(ch)
	m.broken.Describe(ch)
	for _, d := range []*prometheus.Desc{descEntries, descHits, descMisses, descRequests, descPrefetch, descStale, descEvicted, descRejected, descReused, descOpened, descBytes, descHedged} {
		ch <- d
	}
}

// Collect sends the current values.
func (m *Metrics) Collect(ch chan<- prometheus.Metric) {
	m.duration.Collect(ch)
	m.checks.Collect(ch)
	m.broken.Collect(ch)
	m.mu.Lock()
	defer m.mu.Unlock()
	var all zoneTotals
	rejected := uint64(0)
	reached := map[[2]string][2]uint64{}
	for _, f := range m.forwarders {
		all.of(f.o.Zones).add(f)
		rejected += f.counts.rejected.Load()
		for _, s := range f.servers.now() {
			k := [2]string{s.addr.String(), s.proto()}
			n := reached[k]
			reached[k] = [2]uint64{n[0] + s.link.Reused.Load(), n[1] + s.link.Opened.Load()}
		}
	}
	counter := func(d *prometheus.Desc, v uint64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(v), labels...)
	}
	counter(descRejected, rejected)
	for k, n := range reached {
		counter(descReused, n[0], "forward", k[0], k[1])
		counter(descOpened, n[1], "forward", k[0], k[1])
	}
	for zones, t := range all {
		t.collect(ch, counter, zones)
	}
}
