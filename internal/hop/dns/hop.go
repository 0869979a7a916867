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
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/server"
	"github.com/podway/podway/internal/hop/dns/upstream"
	"github.com/podway/podway/internal/model"
)

// Options are what the cluster's objects do not say.
type Options struct {
	Node         string
	Domain       string           // cluster domain; "" = cluster.local
	Listen       []netip.AddrPort // UDP and TCP, in the place of port 53 of Config; empty = serve nobody
	AsConfigured bool             // listen where Config says; Listen is not used
	Upstreams    []netip.AddrPort // without Config: servers for other names; empty = those of ResolvConf
	ResolvConf   string           // "" = /etc/resolv.conf
	NoUpstream   bool             // no other server is asked
	CIDRs        []netip.Prefix   // ranges of Services and Pods: their reverse names are the cluster's
	TTL          uint32           // seconds; 0 = answers.DefaultTTL
	PodRecords   bool             // a-b-c-d.NAMESPACE.pod.DOMAIN answers the address in the name
	PodsChecked  bool             // with PodRecords: only addresses of Pods that the snapshot has in that namespace
	Nameservers  []netip.Addr     // addresses of ns.dns.DOMAIN: the DNS Service's
	Lameduck     time.Duration    // how long Close goes on answering
	Metrics      prometheus.Registerer

	// Config is what a Corefile says; nil = one block for the cluster's names and all others. Of the fields above, Domain,
	// TTL and PodRecords are its matter then.
	Config *config.Config
	// Changed returns the configuration when it is another one than at the last call, else nil; it is called every second
	// while the server runs. An error keeps what there is. nil = the configuration does not change.
	Changed func() (*config.Config, error)

	// In runs a function in the network namespace in which sockets are opened; nil = this one.
	In func(func() error) error
}

// Hop is the DNS server of one node.
type Hop struct {
	o       Options
	live    atomic.Pointer[live]
	serving atomic.Pointer[serving]
	metrics *server.Metrics

	forwarding   *upstream.Metrics
	reloadFailed prometheus.Counter

	mu       sync.Mutex
	doors    []*door
	follow   context.CancelFunc // ends what follows files; nil = nothing does
	followed sync.WaitGroup
	failed   error // of the last attempt to listen
	invalid  error // of the configuration that was not taken
	leaving  bool  // Close was called
}

// live is what is served: a view and the snapshot that it shows.
type live struct {
	view *answers.View
	from *model.Snapshot // nil before the first complete view
}

// New makes the hop; it opens nothing before Listen or the first Apply.
func New(o Options) (*Hop, error) {
	h := &Hop{o: o, forwarding: upstream.NewMetrics(), failed: errors.New("dns: not listening yet"),
		reloadFailed: prometheus.NewCounter(prometheus.CounterOpts{Name: "coredns_reload_failed_total", Help: "Changed configurations that were not taken."})}
	c := o.Config
	if c == nil {
		c = o.builtIn()
	}
	s, err := h.prepare(c, nil)
	if err != nil {
		return nil, err
	}
	blank, err := answers.New(s.answers)
	if err != nil {
		return nil, err
	}
	h.metrics = server.NewMetrics(blank.Domain())
	h.live.Store(&live{view: blank})
	h.serving.Store(s)
	h.arrange(s)
	if o.Metrics != nil {
		return h, h.register(o.Metrics)
	}
	return h, nil
}

// Name implements hop.Hop.
func (h *Hop) Name() string { return "dns" }

// Listen opens the sockets that are not open yet. Before the first Apply names outside the cluster are answered and
// those of the cluster fail.
func (h *Hop) Listen(ctx context.Context) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.listen(ctx)
}

// Apply implements hop.Hop: the answers are swapped at once, then sockets that are missing are opened.
func (h *Hop) Apply(ctx context.Context, s *model.Snapshot, c model.Change) (hop.Report, error) {
	start := time.Now()
	r := hop.Report{Full: c.All}
	r.Changed = h.Show(s, c)
	err := h.Listen(ctx)
	r.Findings = h.Findings()
	r.Took = time.Since(start)
	return r, err
}

// Show is the first half of Apply: the answers are swapped, and nothing is opened. It returns how many Services changed.
func (h *Hop) Show(s *model.Snapshot, c model.Change) (changed int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if have := h.live.Load(); have.from != s {
		var view *answers.View
		view, changed = have.view.Apply(s, c)
		h.live.Store(&live{view, s})
	}
	return changed
}

// Find says what a name and type lead to by what is shown, without asking any other server: Foreign when one would be
// asked.
func (h *Hop) Find(name string, typ uint16) answers.Found {
	return h.serving.Load().first.Find(h.live.Load().view, name, typ)
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
	var out []netip.AddrPort
	for _, d := range h.doors {
		out = append(out, d.server.Addrs()...)
	}
	return out
}

// firstAddrs are those at which Pods ask.
func (h *Hop) firstAddrs() []netip.AddrPort {
	h.mu.Lock()
	defer h.mu.Unlock()
	first := h.serving.Load().first
	for _, d := range h.doors {
		if d.table.Load() == first {
			return d.server.Addrs()
		}
	}
	return nil
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
	s := h.serving.Load()
	blank, blankErr := answers.New(s.answers)
	if blankErr == nil {
		h.live.Store(&live{view: blank})
	}
	h.doors = nil
	h.arrange(s)
	h.leaving, h.failed = false, errors.New("dns: removed")
	return errors.Join(err, blankErr)
}

// shut closes the sockets and waits for questions that are being answered.
func (h *Hop) shut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	h.mu.Lock()
	doors, stop := h.doors, h.follow
	h.follow = nil
	h.mu.Unlock()
	if stop != nil {
		stop()
		h.followed.Wait()
	}
	var errs []error
	for _, d := range doors {
		errs = append(errs, d.server.Close(ctx))
	}
	for _, f := range h.serving.Load().forwarders {
		f.Close()
	}
	return errors.Join(errs...)
}

// Findings are the upstream servers that are not asked because they ask us, and a configuration that was not taken.
func (h *Hop) Findings() []flow.Finding {
	var out []flow.Finding
	for _, f := range h.serving.Load().forwarders {
		for _, a := range f.Looping() {
			out = append(out, finding(flow.DNSLoop, h.object(), fmt.Sprintf("The upstream server %s sends our questions back to us, so it is not asked.", a)))
		}
	}
	slices.SortFunc(out, func(a, b flow.Finding) int { return strings.Compare(a.Cause, b.Cause) })
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.invalid != nil {
		out = append(out, finding(flow.DNSConfigInvalid, h.object(), "The changed configuration of the DNS server is not valid, so the one before stays.",
			strings.Split(h.invalid.Error(), "\n")...))
	}
	return out
}
