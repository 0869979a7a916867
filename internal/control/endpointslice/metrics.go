package endpointslice

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Metrics count what the Controller does. A nil *Metrics counts nothing.
type Metrics struct {
	writes   *prometheus.CounterVec
	failures prometheus.Counter
	sync     prometheus.Histogram
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		writes: prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "podway", Subsystem: "endpointslice", Name: "writes_total",
			Help: "EndpointSlices and Endpoints written."}, []string{"resource", "verb"}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Namespace: "podway", Subsystem: "endpointslice", Name: "sync_failures_total",
			Help: "Services whose slices or Endpoints could not be written; each is tried again."}),
		sync: prometheus.NewHistogram(prometheus.HistogramOpts{Namespace: "podway", Subsystem: "endpointslice", Name: "sync_duration_seconds",
			Help: "Time of planning and writing the slices of one Service.", Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14)}),
	}
	r.MustRegister(m.writes, m.failures, m.sync)
	return m
}

func (m *Metrics) wrote(resource, verb string) {
	if m != nil {
		m.writes.WithLabelValues(resource, verb).Inc()
	}
}

func (m *Metrics) synced(start time.Time, err error) {
	if m == nil {
		return
	}
	m.sync.Observe(time.Since(start).Seconds())
	if err != nil {
		m.failures.Inc()
	}
}
