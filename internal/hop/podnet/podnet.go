// Package podnet is the pod network: every Pod has an address of its node's range, and packets for it find its node and
// there its device, without translation. It owns the routes of its protocol number, the VXLAN device podway0 with its
// entries, the nftables tables podway-podnet (masquerading of what leaves the cluster) and the node's configuration file
// for the CNI plugin, which package cni is. What that makes for each Pod it only repairs. It owns no Service and decides nothing about who may talk to whom.
package podnet

import (
	"context"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
)

// Overlay says when packets to Pods of another node travel inside VXLAN.
type Overlay string

// The values of Overlay.
const (
	OverlayAuto   Overlay = "auto"   // to nodes that are not on a network of this node
	OverlayAlways Overlay = "always" // to all nodes: where the network drops packets with Pods' addresses, as clouds do
	OverlayNever  Overlay = "never"  // to none: nodes of other networks are a finding
)

// Options is what the cluster's objects do not say.
type Options struct {
	Node         string  // this node's name
	Overlay      Overlay // "" = auto
	VNI          int     // 0 = DefaultVNI
	Port         uint16  // UDP port of the tunnel; 0 = DefaultPort
	MTU          int     // of the underlay; 0 = that of the device with the node's address
	ServiceCIDRs []netip.Prefix
	// NoMasquerade is where packets of Pods go with the Pod's own address, beside Pods, nodes and Services.
	NoMasquerade []netip.Prefix
	ConfigPath   string // of the NodeConfig; "" = DefaultConfigPath
	StoreDir     string // of the CNI plugin's reservations; "" = DefaultStoreDir
	Metrics      *Metrics
}

func (o Options) withDefaults() Options {
	if o.Overlay == "" {
		o.Overlay = OverlayAuto
	}
	if o.VNI == 0 {
		o.VNI = DefaultVNI
	}
	if o.Port == 0 {
		o.Port = DefaultPort
	}
	if o.ConfigPath == "" {
		o.ConfigPath = DefaultConfigPath
	}
	if o.StoreDir == "" {
		o.StoreDir = DefaultStoreDir
	}
	return o
}

// doors is all that a Hop may touch.
type doors struct {
	links      link.Door
	routes     route.Door
	neighbours route.NeighbourDoor
	sysctl     sysctl.Door
	rules      nft.Kernel
	flows      func() (conntrack.Table, error)
	// changed says cheaply whether devices, addresses, routes or entries changed since it was asked; nil: not known.
	changed func() (bool, error)
	close   func()
}

// Hop is the pod network of one node.
type Hop struct {
	opt   Options
	doors doors
	store *ipam.Store
	rules sync.Mutex // nft.Kernel serves one caller at a time
	// last is what the newest Apply worked on.
	last atomic.Pointer[applied]
	// cannotForward: forwarding is off and /proc/sys read-only, which is a finding and not drift.
	cannotForward atomic.Bool
	seen          seen           // only Check uses it
	found         []flow.Finding // of the newest Apply that looked; only Apply uses it
}

// applied is what an Apply knew and wanted.
type applied struct {
	snapshot *model.Snapshot
	host     Host
	want     State
}

var _ hop.Hop = (*Hop)(nil)

func newHop(o Options, d doors) *Hop {
	o = o.withDefaults()
	return &Hop{opt: o, doors: d, store: ipam.Open(o.StoreDir)}
}

// Name is "podnet".
func (h *Hop) Name() string { return "podnet" }

// Close lets go of the kernel; all that was programmed stays.
func (h *Hop) Close() {
	if h.doors.close != nil {
		h.doors.close()
	}
}

// Store is the reservations of this node's Pods: whose address, which device, which network namespace.
func (h *Hop) Store() *ipam.Store { return h.store }

// Apply makes routes, tunnel, masquerading and the plugin's configuration what the Nodes say.
func (h *Hop) Apply(ctx context.Context, s *model.Snapshot, c model.Change) (hop.Report, error) {
	start := time.Now()
	if !c.All && len(c.Nodes) == 0 {
		return hop.Report{Took: time.Since(start), Findings: h.found}, nil
	}
	have, err := h.read(ctx)
	if err != nil {
		return hop.Report{Took: time.Since(start)}, err
	}
	want, findings := Plan(s, h.opt, have.Host)
	if want.Config.Node == "" { // this node is not known, or has no range: what is there stays
		h.found = findings
		return hop.Report{Took: time.Since(start), Findings: findings}, nil
	}
	h.last.Store(&applied{snapshot: s, host: have.Host, want: want})
	changed, more, err := h.apply(ctx, have, want)
	h.found = append(append(findings, more...), h.forwardPolicy(ctx)...)
	h.opt.Metrics.applied(want, changed)
	if reserved, err := h.store.List(); err == nil {
		h.opt.Metrics.reserved(want, reserved)
	}
	return hop.Report{Changed: changed, Full: true, Took: time.Since(start), Findings: h.found}, err
}

// Declared is where the cluster's objects want f to go. On the node itself it also knows the way there.
func (h *Hop) Declared(s *model.Snapshot, f flow.Flow) flow.Verdict {
	var host *Host
	if l := h.last.Load(); l != nil && f.Node == h.opt.Node {
		host = &l.host
	}
	return Declared(s, h.opt, host, f)
}
