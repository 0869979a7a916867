package podnet

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/route"
)

// Host is what the plan must know of the machine: devices and routes that are not podway's.
type Host struct {
	Links  []link.Link
	Routes []route.Route
}

// defaultMTU is Ethernet's, for a node whose device is not known.
const defaultMTU = 1500

// deviceOf returns the device that has the address.
func (h Host) deviceOf(a netip.Addr) (link.Link, bool) {
	i := slices.IndexFunc(h.Links, func(l link.Link) bool {
		return slices.ContainsFunc(l.Addrs, func(p netip.Prefix) bool { return p.Addr() == a })
	})
	if i < 0 {
		return link.Link{}, false
	}
	return h.Links[i], true
}

// onLink returns the Ethernet device on whose own network the address lies: packets reach it without a router.
func (h Host) onLink(a netip.Addr) (device string, ok bool) {
	r, ok := route.Match(h.Routes, a)
	if !ok || r.Type != "" || r.Via.IsValid() || r.Device == "" {
		return "", false
	}
	i := slices.IndexFunc(h.Links, func(l link.Link) bool { return l.Name == r.Device })
	if i < 0 || h.Links[i].NoARP {
		return "", false
	}
	return r.Device, true
}

// mtu is the underlay's: that of the device with the node's address, or else of the one that the default route takes.
func (h Host) mtu(addrs []netip.Addr) int {
	for _, a := range addrs {
		if l, ok := h.deviceOf(a); ok {
			return l.MTU
		}
	}
	for _, l := range h.Links {
		if slices.ContainsFunc(h.Routes, func(r route.Route) bool { return r.Dst.Bits() == 0 && r.Device == l.Name }) {
			return l.MTU
		}
	}
	return defaultMTU
}

// mtuTowards is the MTU of the device by which packets to a node leave; 0 when it is not known.
func (h Host) mtuTowards(a netip.Addr) int {
	r, ok := route.Match(h.Routes, a)
	i := slices.IndexFunc(h.Links, func(l link.Link) bool { return l.Name == r.Device })
	if !ok || r.Type != "" || i < 0 {
		return 0
	}
	return h.Links[i].MTU
}
