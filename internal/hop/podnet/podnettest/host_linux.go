// Package podnettest is nodes and Pods as network namespaces for the tests of the pod network: the real plugin, the real
// kernel, nothing of the host. Namespaces have no names and go with the test.
package podnettest

import (
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// Host is a network namespace with its doors.
type Host struct {
	t      testing.TB
	Name   string
	NS     *netns.NS
	Links  *link.Kernel
	Routes *route.Kernel
	Sysctl *sysctl.Kernel
}

// NewHost makes a namespace whose loopback device is up.
func NewHost(t testing.TB, name string) *Host {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	h := Open(t, name, ns)
	h.Must(h.Links.SetUp("lo", true))
	return h
}

// Open opens the doors of a namespace that somebody else made and closes.
func Open(t testing.TB, name string, ns *netns.NS) *Host {
	t.Helper()
	h := &Host{t: t, Name: name, NS: ns, Sysctl: sysctl.Open(ns)}
	var err error
	if h.Links, err = link.Open(ns); err != nil {
		t.Fatal(err)
	}
	if h.Routes, err = route.Open(ns); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Routes.Close(); h.Links.Close() })
	return h
}

// Must ends the test on an error.
func (h *Host) Must(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatalf("%s: %v", h.Name, err)
	}
}

// Set writes settings, key and value in turn.
func (h *Host) Set(keyValues ...string) {
	h.t.Helper()
	for i := 0; i < len(keyValues); i += 2 {
		h.Must(h.Sysctl.Set(keyValues[i], keyValues[i+1]))
	}
}

// Forward makes the host a router with strict reverse path checks.
func (h *Host) Forward() {
	h.t.Helper()
	h.Set("net/ipv4/ip_forward", "1", "net/ipv6/conf/all/forwarding", "1",
		"net/ipv4/conf/all/rp_filter", "1", "net/ipv4/conf/default/rp_filter", "1")
}

// Wire connects device dev of h with device peerDev of peer, gives both ends addresses with their networks, and waits
// until packets pass.
func (h *Host) Wire(dev string, addrs []string, peer *Host, peerDev string, peerAddrs []string) {
	h.t.Helper()
	h.Must(h.Links.AddPair(link.Pair{Name: dev, Peer: peerDev, MTU: 1500, PeerNS: peer.NS}))
	h.configure(dev, addrs)
	peer.configure(peerDev, peerAddrs)
	for _, e := range []struct {
		h   *Host
		dev string
	}{{h, dev}, {peer, peerDev}} {
		e.h.Must(e.h.Links.AwaitRunning(e.dev, 5*time.Second))
	}
}

func (h *Host) configure(dev string, addrs []string) {
	h.t.Helper()
	for _, a := range addrs {
		h.Must(h.Links.AddAddr(dev, netip.MustParsePrefix(a)))
	}
	h.Must(h.Links.SetUp(dev, true))
	for _, a := range addrs {
		p := netip.MustParsePrefix(a)
		if p.Addr().Is6() { // AddAddr leaves connected IPv6 routes to its caller
			h.Must(h.Routes.Put(route.Route{Dst: p.Masked(), Device: dev, Proto: 2}))
		}
		h.Must(h.Routes.AwaitLocal(p.Addr(), 5*time.Second))
	}
}
