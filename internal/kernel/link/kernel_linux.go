package link

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/rtnl"
)

// Kernel is the Door to the devices of a real network namespace. It is safe for concurrent use.
type Kernel struct {
	nl  *netlink.Handle
	tun int // a socket in the namespace, for ethtool requests
}

// Open opens the namespace's devices; nil is the calling thread's namespace.
func Open(ns *netns.NS) (*Kernel, error) {
	k := &Kernel{tun: -1}
	open := func() (err error) {
		if k.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("link: open netlink: %w", err)
		}
		if k.tun, err = unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0); err != nil {
			return fmt.Errorf("link: open ethtool socket: %w", err)
		}
		return nil
	}
	err := open
	if ns != nil {
		err = func() error { return ns.Do(open) }
	}
	if err := err(); err != nil {
		k.Close()
		return nil, err
	}
	return k, nil
}

// Close lets go of the namespace.
func (k *Kernel) Close() {
	if k.nl != nil {
		k.nl.Close()
	}
	if k.tun >= 0 {
		unix.Close(k.tun)
	}
}

// List returns all devices by name.
func (k *Kernel) List() ([]Link, error) {
	links, err := rtnl.List(k.nl.LinkList)
	if err != nil {
		return nil, fmt.Errorf("link: list: %w", err)
	}
	addrs, err := rtnl.List(func() ([]netlink.Addr, error) { return k.nl.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("link: list addresses: %w", err)
	}
	byIndex := map[int][]netip.Prefix{}
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok && !p.Addr().IsLinkLocalUnicast() {
			byIndex[a.LinkIndex] = append(byIndex[a.LinkIndex], p)
		}
	}
	out := make([]Link, 0, len(links))
	for _, l := range links {
		out = append(out, k.convert(l, byIndex[l.Attrs().Index]))
	}
	slices.SortFunc(out, func(a, b Link) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Get returns a device.
func (k *Kernel) Get(name string) (Link, bool, error) {
	l, err := k.find(name)
	if l == nil || err != nil {
		return Link{}, false, err
	}
	addrs, err := k.addrs(l)
	if err != nil {
		return Link{}, false, err
	}
	return k.convert(l, addrs), true, nil
}

// find returns nil when there is no such device.
func (k *Kernel) find(name string) (netlink.Link, error) {
	l, err := k.nl.LinkByName(name)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("link: get %s: %w", name, err)
	}
	return l, nil
}

func (k *Kernel) addrs(l netlink.Link) ([]netip.Prefix, error) {
	addrs, err := rtnl.List(func() ([]netlink.Addr, error) { return k.nl.AddrList(l, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("link: addresses of %s: %w", l.Attrs().Name, err)
	}
	var out []netip.Prefix
	for _, a := range addrs {
		if p, ok := prefixOf(a.IPNet); ok && !p.Addr().IsLinkLocalUnicast() {
			out = append(out, p)
		}
	}
	return out, nil
}

func (k *Kernel) convert(l netlink.Link, addrs []netip.Prefix) Link {
	a := l.Attrs()
	out := Link{
		Name: a.Name, Index: a.Index, MTU: a.MTU, Alias: a.Alias, Addrs: addrs,
		Up: a.Flags&net.FlagUp != 0, NoARP: a.RawFlags&unix.IFF_NOARP != 0 || a.Flags&(net.FlagLoopback|net.FlagPointToPoint) != 0,
	}
	if l.Type() != "device" {
		out.Kind = l.Type()
	}
	if len(a.HardwareAddr) == len(out.MAC) {
		out.MAC = MAC(a.HardwareAddr)
	}
	if v, ok := l.(*netlink.Vxlan); ok {
		local, _ := netip.AddrFromSlice(v.SrcAddr)
		on, _ := k.txChecksum(a.Name)
		out.VXLAN = &VXLAN{VNI: v.VxlanId, Port: uint16(v.Port), Local: local.Unmap(), TxChecksum: on}
	}
	SortAddrs(out.Addrs)
	return out
}

// Delete removes a device.
func (k *Kernel) Delete(name string) error {
	l, err := k.find(name)
	if l == nil || err != nil {
		return err
	}
	if err := k.nl.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("link: delete %s: %w", name, err)
	}
	return nil
}

func prefixOf(n *net.IPNet) (netip.Prefix, bool) {
	if n == nil {
		return netip.Prefix{}, false
	}
	a, ok := netip.AddrFromSlice(n.IP)
	bits, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), bits), ok
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
