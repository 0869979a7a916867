package nettest

import (
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AddNamespace makes a namespace that is joined to nothing, for a Pod that somebody else attaches.
func (w *World) AddNamespace(name string) (*Host, error) { return w.host(name) }

// AddPod makes a Pod on a node, joined by a routed veth pair: the node has one route per address, the Pod a default route
// to a link-local neighbour that is the node.
func (w *World) AddPod(node *Host, name string, addrs ...netip.Addr) (*Host, error) {
	h, err := w.host(name)
	if err != nil {
		return nil, err
	}
	h.InCgroupOf(node)
	w.veths++
	link := &netlink.Veth{
		LinkAttrs: netlink.LinkAttrs{Name: fmt.Sprintf("pod%d", w.veths)},
		PeerName:  "eth0", PeerNamespace: netlink.NsFd(h.ns.Fd()),
	}
	if err := node.nl.LinkAdd(link); err != nil {
		return nil, fmt.Errorf("nettest: pod %s: veth on %s: %w", name, node.Name, err)
	}
	host, err := node.nl.LinkByName(link.Name)
	if err != nil {
		return nil, fmt.Errorf("nettest: pod %s: find %s: %w", name, link.Name, err)
	}
	if err := node.nl.LinkSetUp(host); err != nil {
		return nil, fmt.Errorf("nettest: pod %s: %s up: %w", name, link.Name, err)
	}
	for _, a := range addrs {
		if err := h.joinNode(node, host, a); err != nil {
			return nil, err
		}
	}
	w.wired(end{node, link.Name}, end{h, "eth0"})
	return h, nil
}

// joinNode gives the Pod address a, its way out through the node's device, and the node its route to it.
func (h *Host) joinNode(node *Host, host netlink.Link, a netip.Addr) error {
	gw := netip.MustParseAddr("fe80::1")
	if a.Is4() {
		gw = netip.MustParseAddr("169.254.1.1")
	}
	if err := h.configure("eth0", netip.PrefixFrom(a, a.BitLen())); err != nil {
		return err
	}
	eth, err := h.nl.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("nettest: pod %s: find eth0: %w", h.Name, err)
	}
	n := &netlink.Neigh{
		LinkIndex: eth.Attrs().Index, State: netlink.NUD_PERMANENT, IP: gw.AsSlice(), HardwareAddr: host.Attrs().HardwareAddr,
	}
	if err := h.nl.NeighSet(n); err != nil {
		return fmt.Errorf("nettest: pod %s: neighbour %s: %w", h.Name, gw, err)
	}
	err = h.route(&netlink.Route{
		Dst: ipNet(everything(a)), Gw: gw.AsSlice(), LinkIndex: eth.Attrs().Index, Flags: int(netlink.FLAG_ONLINK),
	})
	if err != nil {
		return err
	}
	back := &netlink.Neigh{
		LinkIndex: host.Attrs().Index, State: netlink.NUD_PERMANENT, IP: a.AsSlice(), HardwareAddr: eth.Attrs().HardwareAddr,
	}
	if err := node.nl.NeighSet(back); err != nil {
		return fmt.Errorf("nettest: pod %s: neighbour on %s: %w", h.Name, node.Name, err)
	}
	dst := &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}
	return node.route(&netlink.Route{Dst: dst, LinkIndex: host.Attrs().Index, Scope: unix.RT_SCOPE_LINK})
}

// Route adds a route to p through the next hop gw, such as to another node's Pods.
func (h *Host) Route(p netip.Prefix, gw netip.Addr) error {
	return h.route(&netlink.Route{Dst: ipNet(p), Gw: gw.AsSlice()})
}
