package cli

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/observe"
)

// endpoints are health, readiness and metrics where CoreDNS has them.
func endpoints(c *config.Config, h *dns.Hop, metrics prometheus.Gatherer) (out []*observe.Endpoint) {
	add := func(name, path string, addrs []string, handler http.Handler) {
		mux := http.NewServeMux()
		mux.Handle(path, handler)
		for _, a := range addrs {
			out = append(out, &observe.Endpoint{Name: name, Addr: a, Handler: mux, HardFail: true})
		}
	}
	add("health", "/health", c.Health, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") }))
	add("ready", "/ready", c.Ready, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := h.Ready(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "OK")
	}))
	add("metrics", "/metrics", c.Metrics, promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	return out
}

// nothing is the Source of a server without names of a cluster.
type nothing struct{}

func (nothing) Run(ctx context.Context, put func(*model.Snapshot)) error {
	put(model.NewBuilder(nil).Snapshot(time.Now()))
	<-ctx.Done()
	return ctx.Err()
}
