package proxy

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/model"
)

// Metrics are kube-proxy's names, so that existing dashboards and alerts go on, and podway's own. Names, types, labels and
// buckets are those of Kubernetes 1.37 (pkg/proxy/metrics); which of them there are depends on the mode. A nil *Metrics
// counts nothing.
type Metrics struct {
	sync, syncFull, syncPartial *prometheus.HistogramVec
	programming, reconcile      *prometheus.HistogramVec

	lastQueued, lastDone            *prometheus.GaugeVec
	noLocal                         *prometheus.GaugeVec
	servicePending, endpointPending prometheus.Gauge
	serviceChanges, endpointChanges prometheus.Counter
	healthz, livez                  *prometheus.CounterVec

	nftFailures, nftCleanup, deleted *prometheus.CounterVec
	ipt                              iptablesMetrics

	numServices            prometheus.Gauge
	entries, entriesMost   prometheus.Gauge
	entriesDropped         prometheus.Gauge
	numWritten, numDrifted prometheus.Counter

	last    *model.Snapshot // applied before this one
	plan    *Plan           // of last
	without map[localless]int
	pending model.Change
}

// iptablesMetrics are those of mode iptables, and the first of them of mode ipvs too.
type iptablesMetrics struct {
	failures, partialFailures *prometheus.CounterVec
	rules, written            *prometheus.GaugeVec
	counted                   IPTablesCounts // what the counters have
}

// IPTablesCounts are what a backend that restores iptables counts, by address family ("IPv4", "IPv6").
type IPTablesCounts struct {
	Failures, PartialFailures map[string]int // restores that failed since the start
	// Rules are those that it has in the kernel now, Written those of its last restore.
	Rules, Written map[TableFamily]int
}

// TableFamily is a table of iptables: Table "nat" or "filter", Family "IPv4" or "IPv6".
type TableFamily struct{ Table, Family string }

// IPTablesCounter is a backend that restores iptables and counts it.
type IPTablesCounter interface{ IPTablesCounts() IPTablesCounts }

const family4, family6 = "IPv4", "IPv6"

// factory makes metrics under kube-proxy's names and registers them.
type factory struct{ r prometheus.Registerer }

func (f factory) labels(more []string) []string { return append(more, "ip_family") }

func (f factory) hist(name, help string, buckets []float64) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "kubeproxy", Name: name, Help: help, Buckets: buckets}, f.labels(nil))
	f.r.MustRegister(h)
	return h
}

func (f factory) gauge(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kubeproxy", Name: name, Help: help}, f.labels(labels))
	f.r.MustRegister(g)
	return g
}

func (f factory) count(name, help string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kubeproxy", Name: name, Help: help}, f.labels(nil))
	f.r.MustRegister(c)
	return c
}

func (f factory) one(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Namespace: "kubeproxy", Name: name, Help: help})
	f.r.MustRegister(c)
	return c
}

func (f factory) level(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "kubeproxy", Name: name, Help: help})
	f.r.MustRegister(g)
	return g
}

func (f factory) codes(name, help string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kubeproxy", Name: name, Help: help}, []string{"code"})
	f.r.MustRegister(c)
	return c
}

// syncBuckets are kube-proxy's: 1 ms to 16 s.
func syncBuckets() []float64 { return prometheus.ExponentialBuckets(0.001, 2, 15) }

// programmingBuckets are kube-proxy's: fine below a minute, coarse up to five.
func programmingBuckets() []float64 {
	return slices.Concat([]float64{0.25, 0.5}, prometheus.LinearBuckets(1, 1, 59), prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))
}

// NewMetrics registers the metrics that a proxy mode has.
func NewMetrics(r prometheus.Registerer, mode string) *Metrics {
	f := factory{r}
	m := &Metrics{
		sync:            f.hist("sync_proxy_rules_duration_seconds", "Time of one application of rules.", syncBuckets()),
		programming:     f.hist("network_programming_duration_seconds", "Time from the change of a Pod or Service to its rules.", programmingBuckets()),
		lastQueued:      f.gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When the last change was seen."),
		lastDone:        f.gauge("sync_proxy_rules_last_timestamp_seconds", "When rules were last applied without error."),
		endpointChanges: f.one("sync_proxy_rules_endpoint_changes_total", "Services whose endpoints changed."),
		serviceChanges:  f.one("sync_proxy_rules_service_changes_total", "Services that changed."),
		endpointPending: f.level("sync_proxy_rules_endpoint_changes_pending", "Changes of endpoints that are not applied yet."),
		servicePending:  f.level("sync_proxy_rules_service_changes_pending", "Changes of Services that are not applied yet."),
		noLocal:         f.gauge("sync_proxy_rules_no_local_endpoints_total", "Service ports with a Local traffic policy and endpoints on other nodes only.", "traffic_policy"),
		healthz:         f.codes("proxy_healthz_total", "Answers of /healthz by status."),
		livez:           f.codes("proxy_livez_total", "Answers of /livez by status."),
		reconcile:       f.hist("conntrack_reconciler_sync_duration_seconds", "Time of looking for stale connection tracking entries.", syncBuckets()),
		deleted:         f.count("conntrack_reconciler_deleted_entries_total", "Stale connection tracking entries that were deleted."),
		numServices:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "podway", Name: "proxy_services", Help: "Services that are programmed."}),
		numWritten:      prometheus.NewCounter(prometheus.CounterOpts{Namespace: "podway", Name: "proxy_objects_written_total", Help: "Set elements, rules and chains written to the kernel."}),
		numDrifted:      prometheus.NewCounter(prometheus.CounterOpts{Namespace: "podway", Name: "proxy_drift_total", Help: "Times that somebody else had changed the rules."}),
	}
	own := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "podway", Name: name, Help: help})
	}
	m.entries = own("proxy_conntrack_entries", "Connections that the kernel tracks in the node's namespace.")
	m.entriesMost = own("proxy_conntrack_limit", "Most connections that the kernel tracks (nf_conntrack_max).")
	m.entriesDropped = own("proxy_conntrack_dropped_packets", "Packets dropped since boot because the table was full.")
	r.MustRegister(m.numServices, m.numWritten, m.numDrifted, m.entries, m.entriesMost, m.entriesDropped)
	m.ofMode(f, mode)
	return m
}

// ofMode registers what only some modes have. Mode ebpf, which kube-proxy lacks, has the names of nftables without "nftables".
func (m *Metrics) ofMode(f factory, mode string) {
	if mode != "ipvs" {
		m.syncFull = f.hist("sync_full_proxy_rules_duration_seconds", "Time of one application of all rules.", syncBuckets())
		m.syncPartial = f.hist("sync_partial_proxy_rules_duration_seconds", "Time of one application of what changed.", syncBuckets())
	}
	switch mode {
	case "nftables":
		m.nftFailures = f.count("sync_proxy_rules_nftables_sync_failures_total", "Applications of rules that failed.")
		m.nftCleanup = f.count("sync_proxy_rules_nftables_cleanup_failures_total", "Removals of stale chains that failed; they are part of the same transaction, so that none does.")
	case "iptables", "ipvs":
		m.ipt.failures = f.count("sync_proxy_rules_iptables_restore_failures_total", "Restores of iptables that failed.")
	}
	if mode == "iptables" {
		m.ipt.partialFailures = f.count("sync_proxy_rules_iptables_partial_restore_failures_total", "Restores of a part of iptables that failed and became full ones.")
		m.ipt.rules = f.gauge("sync_proxy_rules_iptables_total", "Rules that the proxy has.", "table")
		m.ipt.written = f.gauge("sync_proxy_rules_iptables_last", "Rules written by the last restore.", "table")
	}
}

// Answered counts an answer of /healthz or /livez.
func (m *Metrics) Answered(path string, code int) {
	if m == nil {
		return
	}
	if path == "livez" {
		m.livez.WithLabelValues(strconv.Itoa(code)).Inc()
		return
	}
	m.healthz.WithLabelValues(strconv.Itoa(code)).Inc()
}

// room notes how full the table of connections is.
func (m *Metrics) room(r conntrack.Room) {
	if m == nil {
		return
	}
	m.entries.Set(float64(r.Entries))
	m.entriesMost.Set(float64(r.Max))
	m.entriesDropped.Set(float64(r.Dropped))
}
