// Package ingress is the HTTP proxy of the cluster as a hop: it keeps routes and certificates in line with the cluster, has
// a driver serve them, and says what a request leads to. What answers a request is decided in package routes, certificates
// are kept by package certs, sockets are a driver's. It owns nothing in the kernel beside its sockets.
package ingress

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/ingress/certs"
	"github.com/podway/podway/internal/hop/ingress/drivers/nethttp"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// Options are what the cluster's objects do not say. The zero value listens nowhere.
type Options struct {
	HTTP, HTTPS    []netip.AddrPort  // addresses to listen on
	Controller     string            // spec.controller of the IngressClasses served; "" = podway.io/ingress
	Class          string            // legacy class annotation served without an IngressClass; "" = podway
	DefaultBackend routes.ServiceRef // answers what no Ingress does; zero = 404
	DefaultSecret  model.Name        // certificate for hosts without one; zero = self-signed
	TrustedCIDRs   []netip.Prefix    // proxies in front whose X-Forwarded-* headers are believed
	Metrics        prometheus.Registerer
	Log            *slog.Logger

	// In runs a function in the network namespace in which sockets are opened; nil = this one.
	In func(func() error) error
}

func (o *Options) routes() routes.Config {
	return routes.Config{Controller: o.Controller, Class: o.Class, DefaultBackend: o.DefaultBackend, DefaultSecret: o.DefaultSecret}
}

// Driver serves requests by a table. Use may be called at any time and drops nothing; all else may be called from any
// goroutine.
type Driver interface {
	Use(*routes.Table)
	Table() *routes.Table
	Start() error // does nothing when it serves already
	Addrs() []netip.AddrPort
	InFlight() int64
	Drain(context.Context) error
	Close() error
}

// Hop is the ingress proxy of one node or Pod.
type Hop struct {
	o        Options
	metrics  *metrics
	store    *certs.Store
	declared atomic.Pointer[routes.Table] // what Declared was last asked about
	findings findings

	mu     sync.Mutex
	driver Driver // nil after Remove
	failed error  // of the last attempt to listen
}

var errNoView = errors.New("ingress: no complete view of the cluster yet")

// New makes the hop; it opens nothing before the first Apply.
func New(o Options) (*Hop, error) {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.In == nil {
		o.In = func(f func() error) error { return f() }
	}
	store, err := certs.NewStore()
	if err != nil {
		return nil, err
	}
	h := &Hop{o: o, store: store, metrics: newMetrics(), failed: errNoView}
	h.driver = h.newDriver()
	if o.Metrics != nil {
		return h, h.register(o.Metrics)
	}
	return h, nil
}

func (h *Hop) newDriver() Driver {
	return nethttp.New(nethttp.Options{
		HTTP: h.o.HTTP, HTTPS: h.o.HTTPS, Certificate: h.store.GetCertificate,
		Trusted: h.o.TrustedCIDRs, Inside: h.o.In, Observer: h.metrics, Log: h.o.Log,
	})
}

// Name implements hop.Hop.
func (h *Hop) Name() string { return "ingress" }

// Apply implements hop.Hop: certificates and the table are swapped at once, then sockets that are missing are opened. A
// request that has begun keeps the table it began with.
func (h *Hop) Apply(_ context.Context, s *model.Snapshot, c model.Change) (hop.Report, error) {
	start := time.Now()
	d := h.useDriver()
	old := d.Table()
	if old != nil && c.All { // the table knows its snapshot, so there is nothing to be unsure of
		c = model.Diff(old.Snapshot(), s)
	}
	full := old == nil || len(c.Classes) > 0
	next := old
	switch {
	case old == nil:
		next = routes.Build(h.o.routes(), s)
	case old.Snapshot() != s:
		next = old.Update(s, c)
	}
	r, news := hop.Report{Full: full}, false
	if next != old {
		r.Changed, news = h.swap(d, old, next)
	}
	err := d.Start()
	h.mu.Lock()
	h.failed = err
	h.mu.Unlock()
	r.Findings = h.findings.of(next, news)
	r.Took = time.Since(start)
	h.metrics.applied(next, r)
	return r, err
}

// Findings is what is wrong by now: an Apply may have put the gathering of it off. It is called from Apply's goroutine.
func (h *Hop) Findings() []flow.Finding {
	d, _ := h.live()
	if d == nil || d.Table() == nil {
		return nil
	}
	return h.findings.of(d.Table(), false)
}

// swap brings certificates and routes up to date and returns how many of their entries differ, and whether there may be
// other findings now.
func (h *Hop) swap(d Driver, old, next *routes.Table) (changed int, news bool) {
	routes.ChangedTLS(old, next, func(host string, e *routes.TLS) {
		changed++
		if e == nil {
			h.store.Delete(host)
		} else if !h.store.Set(host, e.Cert) {
			h.o.Log.Warn("TLS secret cannot be used", "hop", "ingress", "host", e.Host, "secret", e.Cert.Secret.String(), "err", e.Cert.Err)
		}
	})
	h.store.SetDefault(next.DefaultCert())
	n, more := routes.ChangedRoutes(old, next)
	news = more || changed > 0
	changed += n
	d.Use(next)
	if old != nil {
		h.metrics.forget(old.Snapshot(), next.Snapshot())
	}
	return changed, news
}

// useDriver returns the driver, a new one after Remove.
func (h *Hop) useDriver() Driver {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.driver == nil {
		h.driver = h.newDriver()
	}
	return h.driver
}

// live returns the driver and why it does not serve.
func (h *Hop) live() (Driver, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.driver == nil {
		return nil, errors.New("ingress: removed")
	}
	return h.driver, h.failed
}

// Ready is nil when the cluster is known and every address is served. It stays so while draining.
func (h *Hop) Ready() error {
	_, err := h.live()
	return err
}

// Addrs returns the addresses that are served, HTTP first.
func (h *Hop) Addrs() []netip.AddrPort {
	d, _ := h.live()
	if d == nil {
		return nil
	}
	return d.Addrs()
}

// Drain ends the service before the process ends: connections go on being accepted, clients are asked to go elsewhere,
// and all is closed when nothing comes any more or ctx ends.
func (h *Hop) Drain(ctx context.Context) error {
	d, _ := h.live()
	if d == nil {
		return nil
	}
	return d.Drain(ctx)
}

// Remove implements hop.Hop: it closes the sockets, which are all there is on the host.
func (h *Hop) Remove(context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.driver == nil {
		return nil
	}
	err := h.driver.Close()
	h.driver = nil
	return err
}

// Text is the table in use for people: one line a route. It is empty before the first Apply.
func (h *Hop) Text() string {
	d, _ := h.live()
	if d == nil || d.Table() == nil {
		return ""
	}
	return d.Table().Text()
}
