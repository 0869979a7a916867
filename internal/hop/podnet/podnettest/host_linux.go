// Package podnettest is nodes and Pods as network namespaces for the tests of the pod network: the real plugin, the real
// kernel, nothing of the host. Namespaces have no names and go with the test.
package podnettest

import (
	"net/netip"
	"testing"

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
	h := &Host{t: t, Name: name}
	var err error
	if h.NS, err = netns.New(); err != nil {
		t.Fatal(err)
	}
	if h.Links, err = link.Open(h.NS); err != nil {
		t.Fatal(err)
	}
	if h.Routes, err = route.Open(h.NS); err != nil {
		t.Fatal(err)
	}
	h.Sysctl = sysctl.Open(h.NS)
	t.Cleanup(func() { h.Routes.Close(); h.Links.Close(); h.NS.Close() })
	h.Must(h.Links.SetUp("lo", true))
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

// Wire connects device dev of h with device peerDev of peer and gives both ends addresses.
func (h *Host) Wire(dev string, addrs []string, peer *Host, peerDev string, peerAddrs []string) {
	h.t.Helper()
	h.Must(h.Links.AddPair(link.Pair{Name: dev, Peer: peerDev, MTU: 1500, PeerNS: peer.NS}))
	h.configure(dev, addrs)
	peer.configure(peerDev, peerAddrs)
}

func (h *Host) configure(dev string, addrs []string) {
	h.t.Helper()
	for _, a := range addrs {
		p := netip.MustParsePrefix(a)
		h.Must(h.Links.AddAddr(dev, p))
		if p.Addr().Is6() { // AddAddr leaves connected IPv6 routes to its caller
			defer func() {
				h.Must(h.Routes.Put(route.Route{Dst: p.Masked(), Device: dev, Proto: kernelProto}))
			}()
		}
	}
	h.Must(h.Links.SetUp(dev, true))
}

// Default routes everything of the gateways' families through them.
func (h *Host) Default(dev string, gateways ...string) {
	h.t.Helper()
	for _, g := range gateways {
		via := netip.MustParseAddr(g)
		all := netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		if via.Is6() {
			all = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		h.Must(h.Routes.Put(route.Route{Dst: all, Via: via, Device: dev, Proto: staticProto}))
	}
}

// Protocols of routes that are not podway's.
const (
	kernelProto = 2
	staticProto = 4
)
