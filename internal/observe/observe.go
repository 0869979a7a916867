// Package observe is what operators see of a running podway: logs, metrics and health over HTTP. It owns no metric of a
// hop (each hop defines its own) and decides no health (the caller says what is ready).
package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewLogger writes text for people, or JSON when format is "json". level is debug, info, warn or error.
func NewLogger(w io.Writer, format, level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, fmt.Errorf("log level %q: want debug, info, warn or error", level)
	}
	opt := &slog.HandlerOptions{Level: l}
	switch format {
	case "text":
		return slog.New(slog.NewTextHandler(w, opt)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, opt)), nil
	}
	return nil, fmt.Errorf("log format %q: want text or json", format)
}

// NewRegistry returns a metrics registry with the Go runtime's and the process's metrics in it.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Check answers one health question: nil = yes, an error says why not.
type Check func() error

// Server serves /metrics, /healthz (and /livez) and /readyz on one address.
type Server struct {
	Addr    string
	Metrics prometheus.Gatherer
	Live    map[string]Check
	Ready   map[string]Check
}

// Run serves until ctx ends. An address that cannot be bound is an error that names it.
func (s *Server) Run(ctx context.Context) error {
	l, err := net.Listen("tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("observe: serve metrics and health on %s: %w (another process has the port? set another address, or \"\" for none)", s.Addr, err)
	}
	srv := &http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second}
	go func() {
		<-ctx.Done()
		_ = srv.Close()
	}()
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("observe: serve %s: %w", s.Addr, err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", report(s.Live))
	mux.HandleFunc("GET /livez", report(s.Live))
	mux.HandleFunc("GET /readyz", report(s.Ready))
	return mux
}

func report(checks map[string]Check) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		out, status := map[string]string{}, http.StatusOK
		for name, check := range checks {
			out[name] = "ok"
			if err := check(); err != nil {
				out[name], status = err.Error(), http.StatusServiceUnavailable
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(out) // the client has gone: nobody to tell
	}
}
