package proxy

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/model"
)

// triggerTime is the annotation in which the endpoint controller says when the change of a Pod or Service happened that
// made it write the slice.
const triggerTime = "endpoints.kubernetes.io/last-change-trigger-time"

// Metrics are kube-proxy's names, so that existing dashboards and alerts go on, and podway's own. A nil *Metrics counts
// nothing.
type Metrics struct {
	sync, programming *prometheus.HistogramVec

	lastQueued, lastDone            *prometheus.GaugeVec
	servicePending, endpointPending *prometheus.GaugeVec
	noLocal                         *prometheus.GaugeVec
	serviceChanges, endpointChanges *prometheus.CounterVec
	failures, deleted               *prometheus.CounterVec

	numServices            prometheus.Gauge
	numWritten, numDrifted prometheus.Counter

	last    *model.Snapshot // applied before this one
	plan    *Plan           // of last
	without map[localless]int
	pending model.Change
}

const family4, family6 = "IPv4", "IPv6"

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	byFamily := []string{"ip_family"}
	hist := func(name, help string, buckets []float64) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "kubeproxy", Name: name, Help: help, Buckets: buckets}, byFamily)
	}
	gauge := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "kubeproxy", Name: name, Help: help}, append(labels, byFamily...))
	}
	count := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "kubeproxy", Name: name, Help: help}, byFamily)
	}
	m := &Metrics{
		sync:            hist("sync_proxy_rules_duration_seconds", "Time of one application of rules.", prometheus.ExponentialBuckets(0.0001, 2, 18)),
		programming:     hist("network_programming_duration_seconds", "Time from the change of a Pod or Service to its rules.", programmingBuckets()),
		lastQueued:      gauge("sync_proxy_rules_last_queued_timestamp_seconds", "When the last change was seen."),
		lastDone:        gauge("sync_proxy_rules_last_timestamp_seconds", "When rules were last applied without error."),
		endpointChanges: count("sync_proxy_rules_endpoint_changes_total", "Services whose endpoints changed."),
		serviceChanges:  count("sync_proxy_rules_service_changes_total", "Services that changed."),
		endpointPending: gauge("sync_proxy_rules_endpoint_changes_pending", "Changes of endpoints that are not applied yet."),
		servicePending:  gauge("sync_proxy_rules_service_changes_pending", "Changes of Services that are not applied yet."),
		failures:        count("sync_proxy_rules_nftables_sync_failures_total", "Applications of rules that failed."),
		noLocal:         gauge("sync_proxy_rules_no_local_endpoints_total", "Service ports with a Local traffic policy and endpoints on other nodes only.", "traffic_policy"),
		deleted:         count("conntrack_reconciler_deleted_entries_total", "Stale connection tracking entries that were deleted."),
		numServices:     prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "podway", Name: "proxy_services", Help: "Services that are programmed."}),
		numWritten:      prometheus.NewCounter(prometheus.CounterOpts{Namespace: "podway", Name: "proxy_objects_written_total", Help: "Set elements, rules and chains written to the kernel."}),
		numDrifted:      prometheus.NewCounter(prometheus.CounterOpts{Namespace: "podway", Name: "proxy_drift_total", Help: "Times that somebody else had changed the rules."}),
	}
	r.MustRegister(m.sync, m.programming, m.lastQueued, m.lastDone, m.endpointChanges, m.serviceChanges, m.endpointPending,
		m.servicePending, m.failures, m.noLocal, m.deleted, m.numServices, m.numWritten, m.numDrifted)
	return m
}

// programmingBuckets are kube-proxy's: fine below a minute, coarse up to five.
func programmingBuckets() []float64 {
	out := []float64{0.005, 0.025, 0.1, 0.25, 0.5}
	out = append(out, prometheus.LinearBuckets(1, 1, 59)...)
	out = append(out, prometheus.LinearBuckets(60, 5, 12)...)
	return append(out, prometheus.LinearBuckets(120, 30, 7)...)
}

// families are those of the node, which are those of its Services.
func families(n *Node) []string {
	var out []string
	if n.primary(true).IsValid() || len(n.LocalPods(true).In) > 0 {
		out = append(out, family4)
	}
	if n.primary(false).IsValid() || len(n.LocalPods(false).In) > 0 {
		out = append(out, family6)
	}
	if len(out) == 0 {
		return []string{family4}
	}
	return out
}

// begin notes what an Apply is about to do.
func (m *Metrics) begin(s *model.Snapshot, c model.Change, decided int) {
	if m == nil {
		return
	}
	m.pending = c
	m.lastQueued.WithLabelValues(family4).Set(float64(s.Time.UnixNano()) / 1e9)
	m.servicePending.WithLabelValues(family4).Set(float64(decided))
	m.endpointPending.WithLabelValues(family4).Set(float64(decided))
}

func (m *Metrics) failed() {
	if m != nil {
		m.failures.WithLabelValues(family4).Inc()
	}
}

func (m *Metrics) checked(drift string) {
	if m != nil && drift != "" {
		m.numDrifted.Inc()
	}
}

// end notes an Apply without error.
func (m *Metrics) end(s *model.Snapshot, p *Plan, done Applied, deleted int, took time.Duration) {
	if m == nil {
		return
	}
	now := time.Now()
	services, endpoints := m.changes(s)
	for _, f := range families(&p.Node) {
		m.sync.WithLabelValues(f).Observe(took.Seconds())
		m.lastDone.WithLabelValues(f).Set(float64(now.UnixNano()) / 1e9)
		m.serviceChanges.WithLabelValues(f).Add(float64(services))
		m.endpointChanges.WithLabelValues(f).Add(float64(endpoints))
		m.servicePending.WithLabelValues(f).Set(0)
		m.endpointPending.WithLabelValues(f).Set(0)
	}
	m.deleted.WithLabelValues(family4).Add(float64(deleted))
	m.numServices.Set(float64(p.Services.Len()))
	m.numWritten.Add(float64(done.Changed))
	m.triggers(s, now)
	m.localless(p)
	m.last = s
}

// changes counts the Services whose object, and those whose endpoints, differ from the last snapshot.
func (m *Metrics) changes(s *model.Snapshot) (services, endpoints int) {
	if m.last == nil {
		return s.Services.Len(), s.Services.Len()
	}
	for _, n := range m.pending.Services {
		if m.last.Services.At(n) != s.Services.At(n) {
			services++
		}
		if m.last.Backends(n) != s.Backends(n) {
			endpoints++
		}
	}
	return services, endpoints
}

// triggers observes how long changes took that began while this process was running.
func (m *Metrics) triggers(s *model.Snapshot, now time.Time) {
	if m.last == nil || m.pending.All {
		return
	}
	for _, n := range m.pending.Services {
		b := s.Backends(n)
		if b == nil {
			continue
		}
		for _, slice := range b.Slices {
			if m.last.Slices.At(slice.Name) == slice {
				continue
			}
			if at, err := time.Parse(time.RFC3339Nano, slice.Annotations[triggerTime]); err == nil {
				m.programming.WithLabelValues(slice.AddressType).Observe(max(0, now.Sub(at).Seconds()))
			}
		}
	}
}

// localless tells ports apart whose Local policy leaves this node without an endpoint.
type localless struct{ policy, family string }

// localless brings the counts of such ports up to date by the Services that changed.
func (m *Metrics) localless(p *Plan) {
	var old model.Map[model.Name, *Service]
	if m.plan != nil {
		old = m.plan.Services
	} else {
		m.without = map[localless]int{}
		for _, f := range families(&p.Node) {
			m.without[localless{"internal", f}], m.without[localless{"external", f}] = 0, 0
		}
	}
	model.Changed(old, p.Services, func(n model.Name) {
		old.At(n).localless(m.without, -1)
		p.Services.At(n).localless(m.without, 1)
	})
	m.plan = p
	for k, n := range m.without {
		m.noLocal.WithLabelValues(k.policy, k.family).Set(float64(n))
	}
}

func (s *Service) localless(count map[localless]int, by int) {
	if s == nil {
		return
	}
	for _, port := range s.Ports {
		if len(port.Local) > 0 || !port.Any {
			continue
		}
		if port.InternalLocal {
			count[localless{"internal", family(port.Is4())}] += by
		}
		if port.ExternalLocal {
			count[localless{"external", family(port.Is4())}] += by
		}
	}
}
