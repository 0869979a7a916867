package podnet

import (
	"context"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/podway/podway/internal/model"
)

func TestMetricsTellOfWaysAddressesAndDrift(t *testing.T) {
	r := prometheus.NewRegistry()
	n := newFakeNode(t, Options{Metrics: NewMetrics(r)})
	n.addPod()
	s := clusterOf("a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24", "c 10.7.0.3 10.244.3.0/24", "d 10.7.0.4 10.244.4.0/24")
	if _, err := n.apply(s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	n.must(n.links.Delete(TunnelDevice))
	if drift, err := n.hop.Check(context.Background()); err != nil || drift == "" {
		t.Fatal(drift, err)
	}
	want := `
# HELP podway_podnet_addresses_capacity Addresses of this node's ranges that Pods may have; IPv4 only, IPv6 does not run out.
# TYPE podway_podnet_addresses_capacity gauge
podway_podnet_addresses_capacity{ip_family="IPv4"} 253
# HELP podway_podnet_addresses_used Addresses of this node's ranges that Pods have.
# TYPE podway_podnet_addresses_used gauge
podway_podnet_addresses_used{ip_family="IPv4"} 1
# HELP podway_podnet_drift_total Times that somebody else had changed the live state.
# TYPE podway_podnet_drift_total counter
podway_podnet_drift_total 1
# HELP podway_podnet_pod_mtu_bytes MTU that new Pods get.
# TYPE podway_podnet_pod_mtu_bytes gauge
podway_podnet_pod_mtu_bytes 1450
# HELP podway_podnet_ranges Pod ranges of other nodes by the way that leads there: direct or tunnel.
# TYPE podway_podnet_ranges gauge
podway_podnet_ranges{way="direct"} 1
podway_podnet_ranges{way="tunnel"} 2
`
	if err := testutil.GatherAndCompare(r, strings.NewReader(want), "podway_podnet_addresses_capacity", "podway_podnet_addresses_used",
		"podway_podnet_drift_total", "podway_podnet_pod_mtu_bytes", "podway_podnet_ranges"); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(r); err != nil || len(problems) != 0 {
		t.Errorf("%v %v", problems, err)
	}
}
