package podnet

import (
	"math"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/hop/podnet/ipam"
)

// Metrics are the pod network's figures. A nil *Metrics counts nothing.
type Metrics struct {
	ranges, used, capacity *prometheus.GaugeVec
	mtu                    prometheus.Gauge
	written, drift         prometheus.Counter
}

// NewMetrics registers the metrics.
func NewMetrics(r prometheus.Registerer) *Metrics {
	gauge := func(name, help, label string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Namespace: "podway", Subsystem: "podnet", Name: name, Help: help}, []string{label})
	}
	count := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "podway", Subsystem: "podnet", Name: name, Help: help})
	}
	m := &Metrics{
		ranges:   gauge("ranges", "Pod ranges of other nodes by the way that leads there: direct or tunnel.", "way"),
		used:     gauge("addresses_used", "Addresses of this node's ranges that Pods have.", "ip_family"),
		capacity: gauge("addresses_capacity", "Addresses of this node's ranges that Pods may have; IPv4 only, IPv6 does not run out.", "ip_family"),
		mtu:      prometheus.NewGauge(prometheus.GaugeOpts{Namespace: "podway", Subsystem: "podnet", Name: "pod_mtu_bytes", Help: "MTU that new Pods get."}),
		written:  count("written_total", "Routes, entries, devices, tables and files written."),
		drift:    count("drift_total", "Times that somebody else had changed the live state."),
	}
	r.MustRegister(m.ranges, m.used, m.capacity, m.mtu, m.written, m.drift)
	return m
}

// applied tells of an Apply.
func (m *Metrics) applied(want State, changed int) {
	if m == nil {
		return
	}
	direct, tunnel := 0, 0
	for _, r := range want.Routes {
		switch {
		case r.Device == TunnelDevice:
			tunnel++
		case r.Type == "":
			direct++
		}
	}
	m.ranges.WithLabelValues("direct").Set(float64(direct))
	m.ranges.WithLabelValues("tunnel").Set(float64(tunnel))
	m.mtu.Set(float64(want.Config.MTU))
	m.written.Add(float64(changed))
}

// reserved tells of the Pods' addresses.
func (m *Metrics) reserved(want State, reserved []ipam.Reservation) {
	if m == nil {
		return
	}
	used := map[string]int{}
	for _, r := range reserved {
		for _, a := range r.Addrs {
			used[familyName(a.Is4())]++
		}
	}
	for _, c := range want.Config.PodCIDRs {
		is4 := c.Addr().Is4()
		m.used.WithLabelValues(familyName(is4)).Set(float64(used[familyName(is4)]))
		if is4 { // without network, gateway and last address
			m.capacity.WithLabelValues(familyName(is4)).Set(max(0, math.Exp2(float64(32-c.Bits()))-3))
		}
	}
}

func (m *Metrics) drifted() {
	if m != nil {
		m.drift.Inc()
	}
}

func familyName(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}
