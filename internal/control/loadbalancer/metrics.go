package loadbalancer

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Metrics say how the Services of type LoadBalancer stand. A nil *Metrics says nothing.
type Metrics struct {
	services  *prometheus.GaugeVec
	available *prometheus.GaugeVec
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	m := &Metrics{
		services: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "podway", Subsystem: "loadbalancer", Name: "services",
			Help: "Services of type LoadBalancer that podway serves, by the reason in their condition."}, []string{"reason"}),
		available: prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "podway", Subsystem: "loadbalancer", Name: "pool_available_addresses",
			Help: "Addresses of an AddressPool that nobody has."}, []string{"pool"}),
	}
	r.MustRegister(m.services, m.available)
	return m
}

func (m *Metrics) set(plan []Assignment, pools map[string]poolStatus) {
	if m == nil {
		return
	}
	m.services.Reset()
	for _, r := range []string{ReasonAllocated, ReasonPartly, ReasonFailed, ReasonTaken, ReasonNotInPool, ReasonBadWish} {
		m.services.WithLabelValues(r)
	}
	for _, a := range plan {
		if !a.Release {
			m.services.WithLabelValues(a.Reason).Inc()
		}
	}
	m.available.Reset()
	for name, st := range pools {
		m.available.WithLabelValues(name).Set(float64(st.Available))
	}
}
