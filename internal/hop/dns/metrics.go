package dns

import (
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// register registers all metrics of the hop.
func (h *Hop) register(r prometheus.Registerer) error {
	start := time.Now()
	age := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "podway_dns_view_age_seconds",
		Help: "Time since the newest change in the answers was seen; before the first view, since the start."}, func() float64 {
		since := start
		if v := h.live.Load().view; v.Synced() {
			since = v.Time()
		}
		return time.Since(since).Seconds()
	})
	services := prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "podway_dns_services", Help: "Services that have names."},
		func() float64 { return float64(h.live.Load().view.Services()) })
	return errors.Join(r.Register(h.metrics), r.Register(h.forwarding), r.Register(h.reloadFailed), r.Register(age), r.Register(services))
}
