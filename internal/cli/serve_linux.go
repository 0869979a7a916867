package cli

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/observe"
	"github.com/podway/podway/internal/trace/ask"
)

// serving is what a process with hops shows of itself: health, metrics, and its live state to trace.
type serving struct {
	agent   *agent.Agent
	watcher *cluster.Watcher
	hops    []hop.Hop
	node    string
	socket  string
	metrics *prometheus.Registry
	log     *slog.Logger
}

// serve starts what s shows; it ends with ctx.
func (d *daemon) serve(ctx context.Context, g *errgroup.Group, s serving) {
	if d.health != "" {
		srv := &observe.Server{Addr: d.health, Metrics: s.metrics,
			Live:  map[string]observe.Check{"process": func() error { return nil }},
			Ready: map[string]observe.Check{"hops": s.agent.Ready}}
		g.Go(func() error { return srv.Run(ctx) })
	}
	if s.socket != "" {
		g.Go(func() error { return ask.Serve(ctx, s.socket, ask.Server{Hops: s.hops, Status: s.status, Log: s.log}) })
	}
}

func (s serving) status() ask.Status {
	st := s.agent.Status()
	out := ask.Status{Node: s.node, Version: version, Hops: st.Hops, Rev: st.Rev, Synced: st.Synced, Failing: st.Failing, Findings: st.Findings}
	if since, lost := s.watcher.Lost(); lost {
		out.Lost = since
	}
	return out
}
