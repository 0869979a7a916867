package packet

import (
	"context"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	vnetns "github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/rtnl"
)

// Interfaces lists the devices of the namespace; nil is the calling thread's.
func Interfaces(ns *netns.NS) (out []Interface, err error) {
	list := func() error {
		h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("packet: open netlink: %w", err)
		}
		defer h.Close()
		out, err = interfaces(h)
		return err
	}
	if ns == nil {
		return out, list()
	}
	err = ns.Do(list)
	return out, err
}

func interfaces(h *netlink.Handle) ([]Interface, error) {
	links, err := rtnl.List(h.LinkList)
	if err != nil {
		return nil, fmt.Errorf("packet: list devices: %w", err)
	}
	addrs, err := rtnl.List(func() ([]netlink.Addr, error) { return h.AddrList(nil, netlink.FAMILY_ALL) })
	if err != nil {
		return nil, fmt.Errorf("packet: list addresses: %w", err)
	}
	out := make([]Interface, 0, len(links))
	for _, l := range links {
		a := l.Attrs()
		i := Interface{Name: a.Name, Index: a.Index, Port: a.MasterIndex != 0, Dummy: a.RawFlags&unix.IFF_NOARP != 0,
			Up:    a.Flags&net.FlagUp != 0 && a.RawFlags&unix.IFF_RUNNING != 0,
			NoARP: a.RawFlags&unix.IFF_NOARP != 0 || a.Flags&(net.FlagLoopback|net.FlagPointToPoint) != 0}
		if len(a.HardwareAddr) == len(i.MAC) {
			i.MAC = MAC(a.HardwareAddr)
		}
		for _, x := range addrs {
			if ip, ok := netip.AddrFromSlice(x.IP); ok && x.LinkIndex == a.Index {
				bits, _ := x.Mask.Size()
				i.Addrs = append(i.Addrs, netip.PrefixFrom(ip.Unmap(), bits))
			}
		}
		out = append(out, i)
	}
	return out, nil
}

// Changes says, until ctx ends, that devices or addresses of the namespace changed; nil is the calling thread's. Several
// changes may be one message. The channel is closed when the kernel lost some or ctx ended.
func Changes(ctx context.Context, ns *netns.NS) (<-chan struct{}, error) {
	opt := vnetns.None()
	if ns != nil {
		opt = vnetns.NsHandle(ns.Fd())
	}
	links, addrs, done := make(chan netlink.LinkUpdate), make(chan netlink.AddrUpdate), make(chan struct{})
	if err := netlink.LinkSubscribeWithOptions(links, done, netlink.LinkSubscribeOptions{Namespace: nsOrNil(opt)}); err != nil {
		return nil, fmt.Errorf("packet: subscribe to devices: %w", err)
	}
	if err := netlink.AddrSubscribeWithOptions(addrs, done, netlink.AddrSubscribeOptions{Namespace: nsOrNil(opt)}); err != nil {
		close(done)
		return nil, fmt.Errorf("packet: subscribe to addresses: %w", err)
	}
	out := make(chan struct{}, 1)
	go func() {
		defer close(out)
		defer drain(links, addrs)
		defer close(done)
		for ok := true; ok; {
			select {
			case <-ctx.Done():
				return
			case _, ok = <-links:
			case _, ok = <-addrs:
			}
			select {
			case out <- struct{}{}:
			default:
			}
		}
	}()
	return out, nil
}

// drain lets the library's readers, which block on their channels, come to their end.
func drain(links <-chan netlink.LinkUpdate, addrs <-chan netlink.AddrUpdate) {
	go func() {
		for range links {
		}
	}()
	go func() {
		for range addrs {
		}
	}()
}

func nsOrNil(h vnetns.NsHandle) *vnetns.NsHandle {
	if !h.IsOpen() {
		return nil
	}
	return &h
}
