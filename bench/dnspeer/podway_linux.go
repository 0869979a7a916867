package dnspeer

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/model"
)

// What a benchmark's own program is told by, when it is started again as podway's server.
const (
	apiEnv     = "PODWAY_BENCH_API"
	listenEnv  = "PODWAY_BENCH_LISTEN"
	profileEnv = "PODWAY_BENCH_PROFILE"
)

// StartPodway starts this program again as podway's DNS server: main calls Serve first. profile = a file for a CPU profile.
func StartPodway(ctx context.Context, at Place, api, profile string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr, err := FreePort()
	if err != nil {
		return nil, err
	}
	return Start(ctx, "podway", addr, at, []string{apiEnv + "=" + api, listenEnv + "=" + addr.String(), profileEnv + "=" + profile}, self)
}

// Serve is podway's DNS server as a node runs it: the hop, fed by watches, with metrics. It returns false at once when this
// process was not started to be one.
func Serve(ctx context.Context) (bool, error) {
	if os.Getenv(apiEnv) == "" {
		return false, nil
	}
	addr, err := netip.ParseAddrPort(os.Getenv(listenEnv))
	if err != nil {
		return true, err
	}
	registry := prometheus.NewRegistry()
	h, err := dns.New(dns.Options{Listen: []netip.AddrPort{addr}, NoUpstream: true, CIDRs: Ranges(), TTL: 30, Metrics: registry})
	if err != nil {
		return true, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return true, err
	}
	go func() { _ = http.Serve(l, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) }()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: os.Getenv(apiEnv), QPS: -1, ContentConfig: rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"}})
	if err != nil {
		return true, err
	}
	if path := os.Getenv(profileEnv); path != "" {
		Profile(path)
	}
	debug.SetGCPercent(50) // answering makes no garbage, so that a small heap costs nothing
	w := &cluster.Watcher{Clients: cluster.Clients{Typed: client}, Kinds: []cluster.Kind{cluster.Services, cluster.EndpointSlices},
		Log: slog.Default(), NamesOnly: true}
	var have *model.Snapshot
	return true, w.Run(ctx, func(s *model.Snapshot) {
		if _, err := h.Apply(ctx, s, model.Diff(have, s)); err != nil {
			slog.Error("dns", "err", err)
		}
		have = s
	})
}
