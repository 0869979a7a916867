package upstream

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/upstream/link"
)

func TestAForwardOfAConfigurationBecomesOptions(t *testing.T) {
	at := netip.MustParseAddrPort
	f := config.Forward{Policy: config.RoundRobin, MaxFails: 3, MaxConcurrent: 7, Expire: time.Minute, ForceTCP: true, TLS: config.TLS{ServerName: "dns.example"},
		To: []config.Target{{Addr: at("192.0.2.1:53")}, {Addr: at("192.0.2.2:853"), TLS: true}, {Addr: at("192.0.2.3:853"), TLS: true, ServerName: "three.example"}, {File: "/etc/resolv.conf"}}}
	c := config.DefaultCache()
	c.Prefetch = config.Prefetch{Amount: 4, Percent: 20}
	o, err := FromConfig(f, c)
	if err != nil {
		t.Fatal(err)
	}
	if o.Policy != RoundRobin || o.MaxFails != 3 || o.MaxConcurrent != 7 || o.Idle != time.Minute || len(o.Servers) != 4 {
		t.Errorf("got %+v", o)
	}
	for i, want := range []link.Proto{link.TCP, link.TLS, link.TLS, link.TCP} {
		if o.Servers[i].Proto != want {
			t.Errorf("server %d: %s", i, o.Servers[i].Proto)
		}
	}
	if o.Servers[1].TLS.ServerName != "dns.example" || o.Servers[2].TLS.ServerName != "three.example" || o.Servers[3].File != "/etc/resolv.conf" {
		t.Errorf("got %+v", o.Servers)
	}
	want := CacheOptions{Entries: 2 * config.DefaultCapacity, MaxTTL: time.Hour, MinTTL: 5 * time.Second, MaxNegative: 30 * time.Minute, MinNegative: 5 * time.Second,
		Failures: 5 * time.Second, Stale: -1, Prefetch: 4, Percent: 20}
	if diff := cmp.Diff(want, o.Cache); diff != "" {
		t.Error(diff)
	}
	if o, _ = FromConfig(config.Forward{To: f.To[:1]}, nil); o.Cache.Entries != -1 || o.MaxFails != -1 || o.Policy != Fastest {
		t.Errorf("got %+v", o)
	}
}

func TestFilesOfCertificatesThatCannotBeReadAreNamed(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tls := range []config.TLS{{CA: "/nowhere/ca.pem"}, {CA: empty}, {Cert: "/nowhere/cert.pem", Key: empty}} {
		f := config.Forward{Plugin: "forward", At: config.Position{File: "Corefile", Line: 9}, TLS: tls, To: []config.Target{{TLS: true}}}
		if _, err := FromConfig(f, nil); err == nil || !strings.HasPrefix(err.Error(), "Corefile:9: forward: tls: ") {
			t.Errorf("%+v: %v", tls, err)
		}
	}
}

func TestMetricsHaveTheNamesOfDashboards(t *testing.T) {
	m := NewMetrics()
	s := start(t, records("x. 60 IN A 192.0.2.1"))
	one := forwarder(Options{Metrics: m}, s)
	two := forwarder(Options{Metrics: m, Zones: "corp.example."}, s)
	c := newClient(t)
	for range 3 {
		for _, f := range []*Forwarder{one, two} {
			if c.atHand(t, f, question("x."), 0) == nil {
				mustAsk(t, f, question("x."))
			}
		}
	}
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(m)
	for name, want := range map[string]string{
		"coredns_cache_hits_total":     `{server="dns://:53",type="success",view="",zones="corp.example."} 2`,
		"coredns_cache_misses_total":   `{server="dns://:53",view="",zones="."} 1`,
		"coredns_cache_requests_total": `{server="dns://:53",view="",zones="."} 3`,
		"coredns_cache_entries":        `{server="dns://:53",type="success",view="",zones="."} 1`,
	} {
		if got := exposed(t, r); !strings.Contains(got, name+want) {
			t.Errorf("%s%s is missing in\n%s", name, want, got)
		}
	}
	got := exposed(t, r)
	for _, name := range []string{"coredns_proxy_request_duration_seconds_count", "coredns_proxy_conn_cache_misses_total", "coredns_forward_max_concurrent_rejects_total", "coredns_forward_healthcheck_broken_total", "coredns_cache_served_stale_total", "coredns_cache_prefetch_total", "coredns_cache_evictions_total"} {
		if !strings.Contains(got, "\n"+name) {
			t.Errorf("%s is missing", name)
		}
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) > 0 {
		t.Errorf("%v %v", problems, err)
	}
	two.Retire()
	if got := exposed(t, r); strings.Contains(got, "corp.example.") {
		t.Error("a forwarder that was retired still counts")
	}
}

// exposed is what a scrape of r reads.
func exposed(t *testing.T, r *prometheus.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	promhttp.HandlerFor(r, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}
