package config

import (
	"net/netip"
	"time"
)

// Forward sends questions to other servers.
type Forward struct {
	At     Position
	Zone   string   // names under it are sent: absolute, lower case
	Except []string // but none under these
	To     []Target // in the order of the file
	TLS    TLS      // of targets with TLS

	ForceTCP      bool          // TCP in any case
	PreferUDP     bool          // UDP first, though the client came by TCP
	Policy        Policy        // how a target is chosen; "" = by measured round-trip time
	MaxConcurrent int           // more questions at a time are refused; 0 = the server's own bound
	MaxFails      int           // failures after which a target is asked last; 0 = never; default DefaultMaxFails
	Expire        time.Duration // idle connections are closed after it; 0 = the server's own
	HealthCheck   HealthCheck
	Failover      []int  // rcodes that count as no answer: the next target is asked. SERVFAIL and REFUSED always do
	Next          []int  // rcodes after which the next Forward of the block is asked
	FailFast      bool   // SERVFAIL at once while every target is known to be down
	Plugin        string // as in the file, for messages: "forward"
}

// DefaultMaxFails is CoreDNS's.
const DefaultMaxFails = 2

// Target is one server, or a file that names servers.
type Target struct {
	File       string         // like resolv.conf(5), read again when it changes; "" = Addr
	Addr       netip.AddrPort // without File
	TLS        bool           // DNS over TLS (RFC 7858), default port 853
	ServerName string         // of the certificate; "" = that of Forward.TLS
}

func (t Target) String() string {
	switch {
	case t.File != "":
		return t.File
	case t.TLS:
		return "tls://" + t.Addr.String()
	}
	return t.Addr.String()
}

// TLS are the settings of TLS connections. Without ServerName certificates are checked against the target's address.
type TLS struct {
	ServerName    string
	Cert, Key, CA string // files; "" = no client certificate, the system's authorities
}

// Policy says how a target is chosen.
type Policy string

// The policies.
const (
	ByRoundTrip Policy = ""
	Random      Policy = "random"
	RoundRobin  Policy = "round_robin"
	Sequential  Policy = "sequential"
)

// HealthCheck is how a target that failed is tried again.
type HealthCheck struct {
	Every       time.Duration // 0 = the server's own interval
	Name        string        // asked for; "" = the root
	NoRecursion bool          // without the bit RD
}

// Cache keeps forwarded answers. Answers of the cluster's own names are never cached.
type Cache struct {
	At       Position
	Zones    []string // names under these only; empty = those of the block
	Success  CachePart
	Denial   CachePart
	Prefetch Prefetch
	Stale    time.Duration // how long after its end an answer may serve while no server answers (RFC 8767); 0 = never
	// StaleAtOnce serves such an answer before the servers are asked again; else they are asked first.
	StaleAtOnce bool
	ServFail    time.Duration // how long a failure is kept; 0 = not
	KeepTTL     bool          // clients see the original time to live
}

// CachePart bounds one kind of answers.
type CachePart struct {
	Capacity int // messages; 0 = the server's own bound
	Min, Max time.Duration
	Off      []string // names under these are not cached: absolute, lower case; "." = none is
}

// Prefetch asks again before an answer ends, if it was asked for often enough. The zero value is without.
type Prefetch struct {
	Amount  int           // questions ...
	Within  time.Duration // ... with no pause longer than this
	Percent int           // of the time to live that is left
}

// The bounds of a cache that says nothing else, as CoreDNS has them.
const (
	DefaultCapacity   = 9984
	DefaultSuccessTTL = 3600 * time.Second
	DefaultDenialTTL  = 1800 * time.Second
	DefaultMinTTL     = 5 * time.Second
	DefaultServFail   = 5 * time.Second
)

// DefaultCache is `cache` without settings.
func DefaultCache() *Cache {
	return &Cache{Success: CachePart{Capacity: DefaultCapacity, Min: DefaultMinTTL, Max: DefaultSuccessTTL},
		Denial:   CachePart{Capacity: DefaultCapacity, Min: DefaultMinTTL, Max: DefaultDenialTTL},
		ServFail: DefaultServFail}
}
