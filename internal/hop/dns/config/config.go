// Package config is the DNS server's configuration as plain data: which zones are served where, and what is done with a
// question in each. It is what a Corefile means (package corefile reads that language) and what the folders beside it are
// told (upstream its servers and cache, zones the order of a block). It reads no file and knows no DNS library.
package config

import (
	"fmt"
	"net/netip"
	"time"
)

// Config is a whole configuration. It is never changed once made.
type Config struct {
	Blocks []*Block // in the order of the file

	Health   []string      // addresses of /health; nil = none
	Lameduck time.Duration // how long the server goes on answering, not ready, once its end was asked for
	Ready    []string      // addresses of /ready
	Metrics  []string      // addresses of /metrics
	NoReload bool          // a changed file is not taken

	Notes []Note // what was accepted and needs nothing
}

// Position is a place in a configuration file. Its zero value is a setting that comes from no file.
type Position struct {
	File string
	Line int // from 1
}

func (p Position) String() string {
	if p.File == "" {
		return "built-in configuration"
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// Note is a setting that was accepted although nothing is done for it, and why nothing needs to be.
type Note struct {
	At     Position
	Plugin string
	Text   string
}

func (n Note) String() string { return fmt.Sprintf("%s: %s: %s", n.At, n.Plugin, n.Text) }

// Key is a zone that a block serves, and where. A question belongs to the block with the longest zone that holds its name,
// among those of the socket by which it came.
type Key struct {
	Zone string // absolute, lower case: "." or "example.org."
	Port uint16
}

// Block is a server block. Its settings have the order in which a question meets them, whatever their order in the file.
type Block struct {
	At   Position
	Keys []Key
	Bind []netip.Addr // addresses to listen on; empty = all

	ACL       []ACL
	Any       bool // questions for ANY get one HINFO record (RFC 8482)
	Log       []Log
	Minimal   bool       // no authority and additional section that is not needed
	Cache     *Cache     // of forwarded answers; nil = none is kept
	Rewrites  []Rewrite  // in the order of the file
	Templates []Template // in the order of the file
	Transfers []Transfer
	Hosts     *Hosts
	Cluster   *Cluster
	Files     []File
	Forwards  []Forward // in the order of the file: the first whose zone holds the name
}

// Zones are the zones of a block's keys, each once.
func (b *Block) Zones() []string {
	var out []string
	seen := map[string]bool{}
	for _, k := range b.Keys {
		if !seen[k.Zone] {
			seen[k.Zone] = true
			out = append(out, k.Zone)
		}
	}
	return out
}

// Fall says what becomes of a name that a plugin is responsible for and does not have.
type Fall struct {
	On    bool
	Zones []string // absolute, lower case; empty = every name
}

// Through reports whether the next plugin is asked for a name (absolute, lower case).
func (f Fall) Through(name string) bool {
	return f.On && (len(f.Zones) == 0 || In(f.Zones, name))
}

// ACL lets clients in or not. The first rule that matches counts; without one the client is let in.
type ACL struct {
	At    Position
	Zones []string // empty = those of the block
	Rules []ACLRule
}

// Action is what becomes of a question.
type Action string

// The actions of an ACL.
const (
	Allow  Action = "allow"
	Deny   Action = "block"  // REFUSED
	Filter Action = "filter" // NOERROR without data
	Drop   Action = "drop"   // no answer
)

// ACLRule matches by client and type of question.
type ACLRule struct {
	Action Action
	Types  []uint16       // empty = all
	From   []netip.Prefix // empty = all
}

// Log writes questions with their answers.
type Log struct {
	At          Position
	Zones       []string // empty = those of the block
	Classes     []string // success, denial, error, all; empty = all
	MinDuration time.Duration
}

// Transfer lets clients fetch the cluster's zone (AXFR, by TCP).
type Transfer struct {
	At    Position
	Zones []string // empty = those of the block
	To    []netip.Prefix
}

// Hosts are names with addresses, as in hosts(5).
type Hosts struct {
	At        Position
	File      string   // read in addition to Inline, which counts before it; "" = none
	Zones     []string // empty = those of the block
	Inline    []HostLine
	TTL       uint32        // seconds
	NoReverse bool          // no PTR records
	Reload    time.Duration // how often File is looked at; 0 = never
	Fall      Fall
}

// HostLine is one line of a hosts file.
type HostLine struct {
	Addr  netip.Addr
	Names []string // absolute, lower case
}

// Pods says how a-b-c-d.NAMESPACE.pod.DOMAIN is answered.
type Pods string

// The modes of Pod records.
const (
	PodsDisabled Pods = "disabled" // NXDOMAIN
	PodsInsecure Pods = "insecure" // with the address in the name
	PodsVerified Pods = "verified" // the same, if a Pod of the namespace has it
)

// Cluster is the names of Services and Pods.
type Cluster struct {
	At      Position
	Domain  string         // absolute, lower case: "cluster.local."
	Reverse []netip.Prefix // addresses whose reverse names are answered too
	Pods    Pods
	TTL     uint32 // seconds
	Fall    Fall

	Namespaces       []string // empty = all
	NoEndpoints      bool     // Services with a ClusterIP only
	EndpointPodNames bool     // an endpoint without hostname is called like its Pod
}

// File is a zone file (RFC 1035).
type File struct {
	At     Position
	Path   string
	Zones  []string      // empty = those of the block
	Reload time.Duration // how often the file is looked at; 0 = never
}
