package control

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/control/endpointslice"
	"github.com/podway/podway/internal/control/loadbalancer"
)

// metrics outlive the terms of leading. Without a registry all are nil.
type metrics struct {
	leading   prometheus.Gauge
	slices    *endpointslice.Metrics
	addresses *loadbalancer.Metrics
}

func newMetrics(r prometheus.Registerer) (m metrics) {
	if r == nil {
		return m
	}
	m.leading = prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "podway", Subsystem: "control", Name: "leading",
		Help: "1 while this process runs the control loops."})
	r.MustRegister(m.leading)
	m.slices, m.addresses = endpointslice.NewMetrics(r), loadbalancer.NewMetrics(r)
	return m
}

// leads tells the metric and whoever asked for it.
func (r *runner) leads(on bool) {
	if r.leading != nil {
		r.leading.Set(map[bool]float64{true: 1}[on])
	}
	r.OnLeading(on)
}
