// Package upstream asks other DNS servers about names that are not the cluster's and keeps their answers. It chooses whom
// to ask, never this server itself; how a server is reached is package link's, how answers are kept package cache's, how
// they are written package packet's. It knows nothing of the cluster.
package upstream

import (
	"context"
	"crypto/tls"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/upstream/cache"
	"github.com/podway/podway/internal/hop/dns/upstream/link"
	"github.com/podway/podway/internal/hop/dns/upstream/packet"
)

// The times of one question. A stub resolver gives up after 5 seconds.
const (
	DefaultTry     = 2 * time.Second
	DefaultStagger = 400 * time.Millisecond
	total          = 4500 * time.Millisecond
)

// The defaults of what is not a time.
const (
	DefaultMaxFails      = 2
	DefaultMaxConcurrent = 4000
)

// Server is one server to ask.
type Server struct {
	Addr  netip.AddrPort
	File  string // instead of Addr: the nameservers of a file like resolv.conf, read again when it changes
	Proto link.Proto
	TLS   *tls.Config // for link.TLS; nil = the machine's roots and the address as the server's name
}

// At are servers asked by UDP.
func At(addrs ...netip.AddrPort) []Server {
	var out []Server
	for _, a := range addrs {
		out = append(out, Server{Addr: a})
	}
	return out
}

// Options say whom to ask and what to keep.
type Options struct {
	Servers       []Server         // empty = those of the file ResolvConf
	ResolvConf    string           // "" = /etc/resolv.conf
	Own           []netip.AddrPort // where we listen: never asked
	Policy        Policy           // who is asked first
	Try           time.Duration    // longest wait for one server; 0 = DefaultTry
	Stagger       time.Duration    // at the latest after so long the next server is asked as well; 0 = DefaultStagger
	MaxFails      int              // failures in a row after which a server is asked last; 0 = DefaultMaxFails, negative = never
	MaxConcurrent int              // different questions asked at a time, others fail; 0 = DefaultMaxConcurrent
	Idle          time.Duration    // after so long an unused connection is closed; 0 = link.Idle
	Check         config.HealthCheck
	Failover      []int // rcodes beside SERVFAIL and the like after which the next server is asked
	FailFast      bool  // while all servers fail none is asked, but for the checks
	Cache         CacheOptions
	Metrics       *Metrics // nil = none
	Zones         string   // the label of metrics: which names are asked for here; "" = "."

	// In runs a function in the network namespace in which sockets are opened; nil = this one.
	In func(func() error) error
}

func (o Options) withDefaults() Options {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&o.Try, DefaultTry)
	set(&o.Stagger, DefaultStagger)
	if o.ResolvConf == "" {
		o.ResolvConf = "/etc/resolv.conf"
	}
	if len(o.Servers) == 0 {
		o.Servers = []Server{{File: o.ResolvConf}}
	}
	if o.Check.Name == "" {
		o.Check.Name = "."
	}
	set(&o.Check.Every, checkEvery)
	if o.MaxFails == 0 {
		o.MaxFails = DefaultMaxFails
	}
	if o.MaxConcurrent == 0 {
		o.MaxConcurrent = DefaultMaxConcurrent
	}
	if o.Zones == "" {
		o.Zones = "."
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics()
	}
	if o.In == nil {
		o.In = func(f func() error) error { return f() }
	}
	o.Cache = o.Cache.withDefaults()
	return o
}

// Forwarder asks upstream servers. It is safe for concurrent use. Several stand side by side, one for each set of servers.
type Forwarder struct {
	o       Options
	start   time.Time // the zero of the cache's clock
	servers servers
	loop    loopProbe
	cache   *cache.Cache // nil = nothing is kept
	limits  packet.Limits
	flights flights
	hedges  budget
	round   atomic.Uint32 // of RoundRobin
	counts  counts

	mu   sync.Mutex
	life context.Context // of checks in the background
	stop context.CancelFunc
}

// New makes a Forwarder; it opens nothing before the first question.
func New(o Options) *Forwarder {
	o = o.withDefaults()
	c := o.Cache
	f := &Forwarder{o: o, start: time.Now(), loop: newLoopProbe(), flights: flights{open: map[flightKey]*flight{}},
		limits: packet.Limits{Max: c.MaxTTL, Min: c.MinTTL, MaxNegative: c.MaxNegative, MinNegative: c.MinNegative, NoSOA: noSOA}}
	if c.Entries > 0 {
		f.cache = cache.New(c.Entries, c.Bytes)
	}
	f.life, f.stop = context.WithCancel(context.Background())
	f.servers = servers{o: o, probe: f.probe}
	o.Metrics.add(f)
	return f
}

// Close closes idle sockets and ends what runs in the background. A question asked later opens them again.
func (f *Forwarder) Close() {
	f.mu.Lock()
	f.stop()
	f.life, f.stop = context.WithCancel(context.Background())
	f.mu.Unlock()
	for _, s := range f.servers.now() {
		s.link.Close()
	}
}

// Retire lets a Forwarder go that nobody asks any more: it counts no longer, and closes when what is being asked has ended.
func (f *Forwarder) Retire() {
	f.o.Metrics.drop(f)
	time.AfterFunc(total, f.Close)
}

func (f *Forwarder) background() context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.life
}

// Looping returns the servers that send our own questions back to us; they are not asked.
func (f *Forwarder) Looping() []netip.AddrPort {
	var out []netip.AddrPort
	list, _ := f.servers.get(time.Now())
	for _, s := range list {
		if s.loops.Load() {
			out = append(out, s.addr)
		}
	}
	return out
}
