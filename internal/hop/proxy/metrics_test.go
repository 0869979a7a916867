package proxy

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/model"
)

func TestMetricsAreCountedUnderTheNamesThatDashboardsKnow(t *testing.T) {
	reg := prometheus.NewRegistry()
	var log []string
	p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log}, Metrics: NewMetrics(reg, "nftables")})
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
		"kubeproxy_sync_proxy_rules_endpoint_changes_total": 1, "kubeproxy_sync_proxy_rules_service_changes_total": 1,
		"kubeproxy_network_programming_duration_seconds": 1, "kubeproxy_sync_proxy_rules_no_local_endpoints_total": 4,
		"podway_proxy_services": 1,
	} {
		if n, err := testutil.GatherAndCount(reg, name); err != nil || n != want {
			t.Errorf("%s has %d series (%v), want %d", name, n, err, want)
		}
	}
	if got := testutil.ToFloat64(p.metrics.endpointChanges); got != 2 {
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
	NewMetrics(reg, "nftables")
	problems, err := testutil.GatherAndLint(reg, "podway_proxy_services", "podway_proxy_objects_written_total", "podway_proxy_drift_total",
		"podway_proxy_conntrack_entries", "podway_proxy_conntrack_limit", "podway_proxy_conntrack_dropped_packets")
	if err != nil || len(problems) > 0 {
		t.Errorf("%+v, %v", problems, err)
	}
}

// kubeProxyMetrics are the names, types and labels of Kubernetes 1.37 (pkg/proxy/metrics/metrics.go), by mode; not those of
// nfacct, which count packets that podway does not drop or accept by such counters.
var kubeProxyMetrics = map[string]string{
	"all": `
conntrack_reconciler_deleted_entries_total counter ip_family
conntrack_reconciler_sync_duration_seconds histogram ip_family
network_programming_duration_seconds histogram ip_family
proxy_healthz_total counter code
proxy_livez_total counter code
sync_proxy_rules_duration_seconds histogram ip_family
sync_proxy_rules_endpoint_changes_pending gauge
sync_proxy_rules_endpoint_changes_total counter
sync_proxy_rules_last_queued_timestamp_seconds gauge ip_family
sync_proxy_rules_last_timestamp_seconds gauge ip_family
sync_proxy_rules_no_local_endpoints_total gauge ip_family traffic_policy
sync_proxy_rules_service_changes_pending gauge
sync_proxy_rules_service_changes_total counter`,
	"nftables": `
sync_full_proxy_rules_duration_seconds histogram ip_family
sync_partial_proxy_rules_duration_seconds histogram ip_family
sync_proxy_rules_nftables_cleanup_failures_total counter ip_family
sync_proxy_rules_nftables_sync_failures_total counter ip_family`,
	"iptables": `
sync_full_proxy_rules_duration_seconds histogram ip_family
sync_partial_proxy_rules_duration_seconds histogram ip_family
sync_proxy_rules_iptables_last gauge ip_family table
sync_proxy_rules_iptables_partial_restore_failures_total counter ip_family
sync_proxy_rules_iptables_restore_failures_total counter ip_family
sync_proxy_rules_iptables_total gauge ip_family table`,
	"ipvs": `
sync_proxy_rules_iptables_restore_failures_total counter ip_family`,
}

// counting is a backend of iptables that counts.
type counting struct {
	recorder
	counts IPTablesCounts
}

func (c *counting) IPTablesCounts() IPTablesCounts { return c.counts }

func TestEachModeHasTheMetricsOfKubeProxy(t *testing.T) {
	for _, mode := range []string{"nftables", "iptables", "ipvs"} {
		reg := prometheus.NewRegistry()
		nat := TableFamily{"nat", family4}
		back := &counting{recorder{log: new([]string)}, IPTablesCounts{Failures: map[string]int{family4: 1}, PartialFailures: map[string]int{family4: 2},
			Rules: map[TableFamily]int{nat: 30}, Written: map[TableFamily]int{nat: 3}}}
		m := NewMetrics(reg, mode)
		p := New(Options{Node: hoptest.NodeA, Backend: back, Metrics: m})
		m.Answered("healthz", 200)
		m.Answered("livez", 503)
		c := hoptest.NewCluster().Put(hoptest.Service("cart", 7), hoptest.Slice("cart", hoptest.Ready("10.244.2.6")))
		one := c.Snapshot()
		late := hoptest.Slice("cart", hoptest.Ready("10.244.2.7"))
		late.Annotations = map[string]string{triggerTime: time.Now().Format(time.RFC3339Nano)}
		two := c.Put(late).Snapshot()
		back.full = true
		for _, s := range [][2]*model.Snapshot{{nil, one}, {one, two}} {
			if _, err := p.Apply(t.Context(), s[1], model.Diff(s[0], s[1])); err != nil {
				t.Fatal(err)
			}
			back.full = false
			back.counts.Failures[family4] = 1
		}
		if got, want := series(t, reg), strings.Fields(strings.ReplaceAll(kubeProxyMetrics["all"]+kubeProxyMetrics[mode], " ", "|")); !sameSet(got, want) {
			t.Errorf("%s:\n%s", mode, cmp.Diff(sorted(want), got))
		}
		if mode != "nftables" {
			if n := testutil.ToFloat64(m.ipt.failures.WithLabelValues(family4)); n != 1 {
				t.Errorf("%s: %v restore failures, want 1: the backend's count is the sum", mode, n)
			}
		}
	}
}

// series are the metrics below kubeproxy_, each as name|type|labels.
func series(t *testing.T, reg *prometheus.Registry) (out []string) {
	t.Helper()
	ms, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range ms {
		name, ok := strings.CutPrefix(m.GetName(), "kubeproxy_")
		if !ok {
			continue
		}
		line := []string{name, strings.ToLower(m.GetType().String())}
		for _, l := range m.GetMetric()[0].GetLabel() {
			line = append(line, l.GetName())
		}
		out = append(out, strings.Join(line, "|"))
	}
	return sorted(out)
}

func sorted(s []string) []string { s = slices.Clone(s); slices.Sort(s); return s }

func sameSet(a, b []string) bool { return slices.Equal(sorted(a), sorted(b)) }

func TestTheBucketsAreThoseOfKubeProxy(t *testing.T) {
	for name, c := range map[string]struct {
		got              []float64
		n                int
		first, mid, last float64
		middle           int
	}{
		"sync":        {syncBuckets(), 15, 0.001, 0.008, 16.384, 3},
		"programming": {programmingBuckets(), 2 + 59 + 12 + 7, 0.25, 1, 300, 2},
	} {
		if len(c.got) != c.n || c.got[0] != c.first || c.got[c.middle] != c.mid || c.got[c.n-1] != c.last {
			t.Errorf("%s: %v", name, c.got)
		}
	}
}
