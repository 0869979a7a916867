package config

import (
	"net/netip"
	"time"
)

// Defaults are what the built-in configuration takes from the command line.
type Defaults struct {
	Domain  string         // absolute, lower case
	TTL     uint32         // seconds
	Pods    Pods           // "" = disabled
	Reverse []netip.Prefix // addresses whose reverse names are answered
	To      []Target       // empty = no other name is answered
	Stale   time.Duration  // how long forwarded answers may serve after their end; 0 = never
}

// Default is one block for everything on port 53: the cluster's names, and all others forwarded and cached.
func Default(d Defaults) *Config {
	if d.Pods == "" {
		d.Pods = PodsDisabled
	}
	b := &Block{Keys: []Key{{Zone: ".", Port: Port}}, Cluster: &Cluster{Domain: d.Domain, Reverse: d.Reverse, Pods: d.Pods, TTL: d.TTL,
		Fall: Fall{On: true, Zones: []string{"in-addr.arpa.", "ip6.arpa."}}}}
	if len(d.To) > 0 {
		b.Forwards = []Forward{{Zone: ".", To: d.To, MaxFails: DefaultMaxFails, Plugin: "forward"}}
		b.Cache = &Cache{Success: CachePart{Capacity: DefaultCapacity, Max: DefaultSuccessTTL},
			Denial: CachePart{Capacity: DefaultCapacity, Max: builtInDenial}, ServFail: DefaultServFail, Stale: d.Stale,
			Prefetch: Prefetch{Amount: 2, Within: time.Minute, Percent: 10}}
	}
	return &Config{Blocks: []*Block{b}}
}

// builtInDenial is the longest life of a negative answer in the built-in configuration.
const builtInDenial = 30 * time.Second

// Port is where DNS servers listen.
const Port = 53
