package arp

import "github.com/prometheus/client_golang/prometheus"

// Metrics count what a Responder does. A nil *Metrics counts nothing.
type Metrics struct {
	addresses                    prometheus.Gauge
	replies, gratuitous, rivalry prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "podway", Subsystem: "announce", Name: name, Help: help})
	}
	m := &Metrics{
		addresses: prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "podway", Subsystem: "announce", Name: "addresses",
			Help: "Addresses that this node answers for."}),
		replies:    count("arp_replies_total", "ARP requests answered."),
		gratuitous: count("arp_gratuitous_total", "Times an address was announced on its devices."),
		rivalry:    count("arp_rival_claims_total", "ARP packets of other stations that claim an address of this node."),
	}
	r.MustRegister(m.addresses, m.replies, m.gratuitous, m.rivalry)
	return m
}

func (m *Metrics) answering(n int) {
	if m != nil {
		m.addresses.Set(float64(n))
	}
}

func (m *Metrics) replied() {
	if m != nil {
		m.replies.Inc()
	}
}

func (m *Metrics) told() {
	if m != nil {
		m.gratuitous.Inc()
	}
}

func (m *Metrics) rival() {
	if m != nil {
		m.rivalry.Inc()
	}
}
