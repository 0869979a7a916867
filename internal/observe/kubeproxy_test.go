package observe

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

func TestTheMetricsAddressAnswersAsKubeProxys(t *testing.T) {
	p := ProxyMetrics{Metrics: NewRegistry(), Mode: "nftables", Config: map[string]string{"mode": "nftables"}, Group: "kubeproxy.config.k8s.io"}
	ask := func(path string) (int, string) {
		w := httptest.NewRecorder()
		p.Handler().ServeHTTP(w, httptest.NewRequest("GET", path, nil))
		b, _ := io.ReadAll(w.Result().Body)
		return w.Code, string(b)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/proxyMode": "nftables", "/configz": `{"kubeproxy.config.k8s.io":{"mode":"nftables"}}` + "\n"} {
		if code, body := ask(path); code != 200 || body != want {
			t.Errorf("%s: %d %q, want %q", path, code, body, want)
		}
	}
	if code, body := ask("/metrics"); code != 200 || !strings.Contains(body, "go_goroutines") {
		t.Errorf("/metrics: %d", code)
	}
	if code, _ := ask("/debug/pprof/"); code != 404 {
		t.Errorf("profiles without being asked for: %d", code)
	}
	p.Profiling = true
	if code, body := ask("/debug/pprof/"); code != 200 || !strings.Contains(body, "goroutine") {
		t.Errorf("profiles: %d", code)
	}
}

func TestAnAddressInUseEndsAnEndpointOnlyIfItShall(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var told error
	e := Endpoint{Name: "healthz", Addr: taken.Addr().String(), Handler: http.NotFoundHandler(), HardFail: true,
		Log: slog.New(slog.DiscardHandler), Failed: func(err error) { told = err }}
	if err := e.Run(t.Context()); err == nil || !errors.Is(told, err) || !strings.Contains(err.Error(), "healthz on "+e.Addr) {
		t.Errorf("got %v, told %v", err, told)
	}
	e.HardFail = false
	ctx, stop := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer stop()
	if err := e.Run(ctx); err != nil {
		t.Errorf("got %v: it should go on trying", err)
	}
	if err := (&Endpoint{}).Run(t.Context()); err != nil {
		t.Errorf("no address: %v", err)
	}
}
