// Package dns is the cluster's DNS server as a hop: it keeps the answers in line with the cluster, serves them, and says
// what a question leads to. What the answers are is decided in package answers, sockets are package server's, names
// outside the cluster package upstream's. It owns nothing in the kernel beside its sockets.
package dns

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/server"
	"github.com/podway/podway/internal/hop/dns/upstream"
	"github.com/podway/podway/internal/model"
)

// Options are what the cluster's objects do not say.
type Options struct {
	Node        string
	Domain      string           // cluster domain; "" = cluster.local
	Listen      []netip.AddrPort // UDP and TCP; empty = serve nobody
	Upstreams   []netip.AddrPort // servers for other names; empty = those of ResolvConf
	ResolvConf  string           // "" = /etc/resolv.conf
	NoUpstream  bool             // other names are refused
	CIDRs       []netip.Prefix   // ranges of Services and Pods: their reverse names are the cluster's
	TTL         uint32           // seconds; 0 = answers.DefaultTTL
	PodRecords  bool             // a-b-c-d.NAMESPACE.pod.DOMAIN answers the address in the name
	Nameservers []netip.Addr     // addresses of ns.dns.DOMAIN: the DNS Service's
	Lameduck    time.Duration    // how long Close goes on answering
	Metrics     prometheus.Registerer

	// In runs a function in the network namespace in which sockets are opened; nil = this one.
	In func(func() error) error
}

func (o Options) answers() answers.Options {
	return answers.Options{Domain: o.Domain, CIDRs: o.CIDRs, TTL: o.TTL, PodRecords: o.PodRecords, Nameservers: o.Nameservers}
}

// own are the addresses behind which we stand: never asked.
func (o Options) own() []netip.AddrPort {
	own := slices.Clone(o.Listen)
	for _, a := range o.Nameservers {
		own = append(own, netip.AddrPortFrom(a, 53))
	}
	return own
}

// Hop is the DNS server of one node.
type Hop struct {
	o       Options
	blank   *answers.View // before the first complete view
	live    atomic.Pointer[live]
	forward *upstream.Forwarder
	metrics *server.Metrics

	forwarding *upstream.Metrics

	mu      sync.Mutex
	server  *server.Server
	failed  error // of the last attempt to listen
	leaving bool  // Close was called
}

// live is what is served: a view and the snapshot that it shows.
type live struct {
	view *answers.View
	from *model.Snapshot // nil before the first complete view
}

// New makes the hop; it opens nothing before Listen or the first Apply.
func New(o Options) (*Hop, error) {
	blank, err := answers.New(o.answers())
	if err != nil {
		return nil, err
	}
	h := &Hop{o: o, blank: blank, metrics: server.NewMetrics(blank.Domain()), forwarding: upstream.NewMetrics()}
	h.live.Store(&live{view: blank})
	if !o.NoUpstream {
		h.forward = upstream.New(upstream.Options{Servers: upstream.At(o.Upstreams...), Metrics: h.forwarding, ResolvConf: o.ResolvConf, Own: o.own(), In: o.In})
	}
	h.server = h.newServer()
	if o.Metrics != nil {
		return h, h.register(o.Metrics)
	}
	return h, nil
}

func (h *Hop) newServer() *server.Server {
	o := server.Options{Listen: h.o.Listen, In: h.o.In, Metrics: h.metrics, View: func() *answers.View { return h.live.Load().view }}
	if h.forward != nil {
		o.Upstream, o.Cached = h.forward, h.forward.Answer
	}
	return server.New(o)
}

// Name implements hop.Hop.
func (h *Hop) Name() string { return "dns" }

// Listen opens the sockets that are not open yet. Before the first Apply names outside the cluster are answered and
// those of the cluster fail.
func (h *Hop) Listen(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failed = h.server.Listen(ctx)
	return h.failed
}

// Apply implements hop.Hop: the answers are swapped at once, then sockets that are missing are opened.
func (h *Hop) Apply(ctx context.Context, s *model.Snapshot, c model.Change) (hop.Report, error) {
	start := time.Now()
	r := hop.Report{Full: c.All, Findings: h.loops()}
	if have := h.live.Load(); have.from != s {
		var view *answers.View
		view, r.Changed = have.view.Apply(s, c)
		h.live.Store(&live{view, s})
	}
	err := h.Listen(ctx)
	r.Took = time.Since(start)
	return r, err
}

// Ready is nil when the cluster is known and every address is served.
func (h *Hop) Ready() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.leaving:
		return errors.New("dns: the server is closing")
	case !h.live.Load().view.Synced():
		return errors.New("dns: no complete view of the cluster yet")
	}
	return h.failed
}

// Addrs returns the addresses that are served.
func (h *Hop) Addrs() []netip.AddrPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.server.Addrs()
}

// Close ends gracefully: not ready at once, answering for Options.Lameduck, or until ctx ends, then no more.
func (h *Hop) Close(ctx context.Context) error {
	h.mu.Lock()
	h.leaving = true
	h.mu.Unlock()
	wait := time.NewTimer(h.o.Lameduck)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-ctx.Done():
		ctx = context.WithoutCancel(ctx)
	}
	return h.shut(ctx)
}

// Remove implements hop.Hop: it closes all sockets. The next Apply opens them again.
func (h *Hop) Remove(ctx context.Context) error {
	err := h.shut(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.server, h.leaving, h.failed = h.newServer(), false, errors.New("dns: removed")
	h.live.Store(&live{view: h.blank})
	return err
}

// shut closes the sockets and waits for questions that are being answered.
func (h *Hop) shut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	h.mu.Lock()
	s := h.server
	h.mu.Unlock()
	err := s.Close(ctx)
	if h.forward != nil {
		h.forward.Close()
	}
	return err
}

// loops are the upstream servers that are not asked because they ask us.
func (h *Hop) loops() []flow.Finding {
	if h.forward == nil {
		return nil
	}
	var out []flow.Finding
	for _, a := range h.forward.Looping() {
		out = append(out, finding(flow.DNSLoop, "DNS server of node "+h.o.Node, fmt.Sprintf("The upstream server %s sends our questions back to us, so it is not asked.", a)))
	}
	return out
}
