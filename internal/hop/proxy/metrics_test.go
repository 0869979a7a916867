package proxy

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/model"
)

func TestMetricsAreCountedUnderTheNamesThatDashboardsKnow(t *testing.T) {
	reg := prometheus.NewRegistry()
	var log []string
	p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log}, Metrics: NewMetrics(reg)})
	c := hoptest.NewCluster().Put(hoptest.Service("cart", 7, func(s *model.Service) { s.InternalPolicyLocal = true }), hoptest.Slice("cart", hoptest.Ready("10.244.2.6")))
	one := c.Snapshot()
	if _, err := p.Apply(t.Context(), one, model.Everything()); err != nil {
		t.Fatal(err)
	}
	changed := hoptest.Slice("cart", hoptest.Ready("10.244.2.7"))
	changed.Annotations = map[string]string{triggerTime: time.Now().Add(-2 * time.Second).Format(time.RFC3339Nano)}
	two := c.Put(changed).Snapshot()
	if _, err := p.Apply(t.Context(), two, model.Diff(one, two)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{
		"kubeproxy_sync_proxy_rules_duration_seconds": 2, "kubeproxy_sync_proxy_rules_last_timestamp_seconds": 2,
		"kubeproxy_sync_proxy_rules_endpoint_changes_total": 2, "kubeproxy_sync_proxy_rules_service_changes_total": 2,
		"kubeproxy_network_programming_duration_seconds": 1, "kubeproxy_sync_proxy_rules_no_local_endpoints_total": 4,
		"podway_proxy_services": 1,
	} {
		if n, err := testutil.GatherAndCount(reg, name); err != nil || n != want {
			t.Errorf("%s has %d series (%v), want %d", name, n, err, want)
		}
	}
	if got := testutil.ToFloat64(p.metrics.endpointChanges.WithLabelValues(family4)); got != 2 {
		t.Errorf("endpoint changes: %v, want 2: one at the start, one after", got)
	}
	if got := testutil.ToFloat64(p.metrics.noLocal.WithLabelValues("internal", family4)); got != 1 {
		t.Errorf("ports without local endpoints: %v, want 1", got)
	}
	three := c.Put(hoptest.Slice("cart", hoptest.Ready("10.244.1.5"))).Snapshot()
	if _, err := p.Apply(t.Context(), three, model.Diff(two, three)); err != nil {
		t.Fatal(err)
	}
	if got := testutil.ToFloat64(p.metrics.noLocal.WithLabelValues("internal", family4)); got != 0 {
		t.Errorf("ports without local endpoints once there is one: %v, want 0", got)
	}
	if sum := programmed(t, reg); sum < 2 || sum > 60 {
		t.Errorf("programming took %v seconds, want a little more than 2", sum)
	}
}

// programmed is the sum of kubeproxy_network_programming_duration_seconds.
func programmed(t *testing.T, reg *prometheus.Registry) float64 {
	t.Helper()
	ms, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		if m.GetName() == "kubeproxy_network_programming_duration_seconds" {
			return m.GetMetric()[0].GetHistogram().GetSampleSum()
		}
	}
	t.Fatal("no programming duration")
	return 0
}

func TestOurOwnMetricsKeepTheNamingRules(t *testing.T) {
	reg := prometheus.NewRegistry()
	NewMetrics(reg)
	problems, err := testutil.GatherAndLint(reg, "podway_proxy_services", "podway_proxy_objects_written_total", "podway_proxy_drift_total")
	if err != nil || len(problems) > 0 {
		t.Errorf("%+v, %v", problems, err)
	}
}
