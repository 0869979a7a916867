package main

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/podway/podway/bench/dnspeer"
	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/model"
)

// serve is podway's DNS server as a node runs it: the hop, fed by watches, with metrics.
func serve(ctx context.Context, o options) error {
	addr, err := netip.ParseAddrPort(o.listen)
	if err != nil {
		return err
	}
	registry := prometheus.NewRegistry()
	h, err := dns.New(dns.Options{Listen: []netip.AddrPort{addr}, NoUpstream: true, CIDRs: dnspeer.Ranges(), TTL: 30, Metrics: registry})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	go func() { _ = http.Serve(l, promhttp.HandlerFor(registry, promhttp.HandlerOpts{})) }()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: o.api, QPS: -1, ContentConfig: rest.ContentConfig{
		ContentType: "application/vnd.kubernetes.protobuf", AcceptContentTypes: "application/vnd.kubernetes.protobuf,application/json"}})
	if err != nil {
		return err
	}
	if o.profile != "" {
		profile(o.profile)
	}
	w := &cluster.Watcher{Clients: cluster.Clients{Typed: client}, Kinds: []cluster.Kind{cluster.Services, cluster.EndpointSlices}, Log: slog.Default()}
	var have *model.Snapshot
	return w.Run(ctx, func(s *model.Snapshot) {
		if _, err := h.Apply(ctx, s, model.Diff(have, s)); err != nil {
			slog.Error("dns", "err", err)
		}
		have = s
	})
}

// profile writes a CPU profile of ten seconds in the middle of the first flood.
func profile(path string) {
	time.AfterFunc(6*time.Second, func() {
		f, err := os.Create(path)
		if err != nil || pprof.StartCPUProfile(f) != nil {
			slog.Error("no profile", "err", err)
			return
		}
		time.Sleep(10 * time.Second)
		pprof.StopCPUProfile()
		f.Close()
	})
}
