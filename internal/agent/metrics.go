package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are about applying, the same for each hop.
type metrics struct {
	duration *prometheus.HistogramVec
	failures *prometheus.CounterVec
	drifts   *prometheus.CounterVec
	last     *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	labels := []string{"hop"}
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "podway_hop_apply_duration_seconds",
			Help: "How long it took to apply a snapshot.", Buckets: prometheus.ExponentialBuckets(0.0001, 4, 10)}, labels),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "podway_hop_apply_failures_total",
			Help: "Applies that failed and were retried."}, labels),
		drifts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "podway_hop_drifts_total",
			Help: "Times that somebody else had changed the live state."}, labels),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "podway_hop_applied_timestamp_seconds",
			Help: "When a snapshot was last applied without error, in Unix time."}, labels),
	}
	if r != nil {
		r.MustRegister(m.duration, m.failures, m.drifts, m.last)
	}
	return m
}

func (m *metrics) observe(hop string, took time.Duration, err error) {
	m.duration.WithLabelValues(hop).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(hop).Inc()
		return
	}
	m.last.WithLabelValues(hop).SetToCurrentTime()
}

func (m *metrics) drift(hop string) { m.drifts.WithLabelValues(hop).Inc() }
