package observe

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/pprof"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// ProxyMetrics is what kube-proxy serves at its metrics address.
type ProxyMetrics struct {
	Metrics   prometheus.Gatherer
	Mode      string // of the proxy
	Config    any    // its configuration as it is in force; it becomes JSON
	Group     string // the configuration's API group
	Profiling bool   // serve /debug/pprof too
}

// Handler serves /metrics, /proxyMode, /configz, /healthz (which says only that the process answers) and, when it is asked
// for, /debug/pprof.
func (p *ProxyMetrics) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(p.Metrics, promhttp.HandlerOpts{}))
	text := func(pattern, body string) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			fmt.Fprint(w, body)
		})
	}
	text("/healthz", "ok")
	text("/proxyMode", p.Mode)
	mux.HandleFunc("/configz", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{p.Group: p.Config}) // the client may be gone
	})
	if p.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	return mux
}
