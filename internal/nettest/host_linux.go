package nettest

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// Host is one network namespace of a World: a node, a Pod or the outside host.
type Host struct {
	Name  string
	Addrs []netip.Addr // in the order they were given

	ns    *netns.NS
	nl    *netlink.Handle
	world *World
	vias  map[netip.Addr]int // outside: next hop -> mark of its routing table

	cgroup string // "" = this process's
}

// NS is the host's namespace; the World closes it.
func (h *Host) NS() *netns.NS { return h.ns }

// Do runs f on a thread of its own in the host's namespace and control group.
func (h *Host) Do(f func() error) error {
	return h.ns.Do(func() error {
		if err := h.join(); err != nil {
			return err
		}
		return f()
	})
}

// Netlink is a route netlink handle in the host's namespace; the World closes it.
func (h *Host) Netlink() *netlink.Handle { return h.nl }

func (h *Host) sysctls(settings ...string) error {
	err := h.Do(func() error {
		for _, s := range settings {
			if err := writeSysctl(s); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("nettest: host %s: %w", h.Name, err)
	}
	return nil
}

// writeSysctl sets "net/ipv4/ip_forward=1" in the namespace of the calling thread.
func writeSysctl(setting string) error {
	key, value, _ := strings.Cut(setting, "=")
	if err := os.WriteFile("/proc/sys/"+key, []byte(value), 0); err != nil {
		return fmt.Errorf("sysctl %s: %w", key, err)
	}
	return nil
}

// configure brings a device up and gives it addresses.
func (h *Host) configure(dev string, addrs ...netip.Prefix) error {
	l, err := h.nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("nettest: host %s: find %s: %w", h.Name, dev, err)
	}
	for _, p := range addrs {
		if err := h.addAddr(l, p); err != nil {
			return err
		}
	}
	if err := h.nl.LinkSetUp(l); err != nil {
		return fmt.Errorf("nettest: host %s: %s up: %w", h.Name, dev, err)
	}
	return nil
}

func (h *Host) addAddr(l netlink.Link, p netip.Prefix) error {
	a := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD
	}
	if err := h.nl.AddrAdd(l, a); err != nil {
		return fmt.Errorf("nettest: host %s: address %s on %s: %w", h.Name, p, l.Attrs().Name, err)
	}
	h.Addrs = append(h.Addrs, p.Addr())
	return nil
}

func (h *Host) defaultVia(gw netip.Addr, dev string) error {
	l, err := h.nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("nettest: host %s: find %s: %w", h.Name, dev, err)
	}
	return h.route(&netlink.Route{Dst: ipNet(everything(gw)), Gw: gw.AsSlice(), LinkIndex: l.Attrs().Index})
}

// OnLink makes the host look for the addresses of p right on its device eth0, as a host of that segment would.
func (h *Host) OnLink(p netip.Prefix) error {
	l, err := h.nl.LinkByName("eth0")
	if err != nil {
		return fmt.Errorf("nettest: host %s: find eth0: %w", h.Name, err)
	}
	return h.route(&netlink.Route{Dst: ipNet(p), LinkIndex: l.Attrs().Index, Scope: netlink.SCOPE_LINK})
}

// Owns makes every address of p the host's own.
func (h *Host) Owns(p netip.Prefix) error {
	lo, err := h.nl.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("nettest: host %s: find lo: %w", h.Name, err)
	}
	return h.route(&netlink.Route{
		Dst: ipNet(p), LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Table: unix.RT_TABLE_LOCAL, Scope: netlink.SCOPE_HOST,
	})
}

// disown makes the host drop whatever it has no other route for, instead of saying so: a stand-in for the internet.
func (h *Host) disown() error {
	for _, p := range []string{"0.0.0.0/0", "::/0"} {
		if err := h.route(&netlink.Route{Dst: ipNet(netip.MustParsePrefix(p)), Type: unix.RTN_BLACKHOLE, Priority: 4096}); err != nil {
			return err
		}
	}
	return nil
}

// Via returns a socket mark: packets that carry it leave the host by the next hop gw, whatever their destination. It is
// how an outside client sends to an address through a chosen node.
func (h *Host) Via(gw netip.Addr) (int, error) {
	h.world.mu.Lock()
	defer h.world.mu.Unlock()
	if m, ok := h.vias[gw]; ok {
		return m, nil
	}
	mark := 100 + len(h.vias)
	onlink := int(netlink.FLAG_ONLINK)
	segment, _ := SegmentOf(gw)
	l, err := h.nl.LinkByName(fmt.Sprintf("eth%d", segment))
	if err != nil {
		return 0, fmt.Errorf("nettest: host %s: device towards %s: %w", h.Name, gw, err)
	}
	if err := h.route(&netlink.Route{Dst: ipNet(everything(gw)), Gw: gw.AsSlice(), Table: mark, Flags: onlink, LinkIndex: l.Attrs().Index}); err != nil {
		return 0, err
	}
	rule := netlink.NewRule()
	rule.Mark, rule.Table, rule.Priority = uint32(mark), mark, 100
	rule.Family = unix.AF_INET6
	if gw.Is4() {
		rule.Family = unix.AF_INET
	}
	if err := h.nl.RuleAdd(rule); err != nil {
		return 0, fmt.Errorf("nettest: host %s: rule for mark %d: %w", h.Name, mark, err)
	}
	if h.vias == nil {
		h.vias = map[netip.Addr]int{}
	}
	h.vias[gw] = mark
	return mark, nil
}

func (h *Host) route(r *netlink.Route) error {
	if err := h.nl.RouteReplace(r); err != nil {
		return fmt.Errorf("nettest: host %s: route %s: %w", h.Name, r.Dst, err)
	}
	return nil
}

// SegmentOf tells on which segment an address lies; false when on none of the first ten.
func SegmentOf(a netip.Addr) (int, bool) {
	for n := range mostSegments {
		if segmentAddr(n, 1, a.Is4()).Masked().Contains(a) {
			return n, true
		}
	}
	return 0, false
}

const mostSegments = 10

func everything(family netip.Addr) netip.Prefix {
	if family.Is4() {
		return netip.MustParsePrefix("0.0.0.0/0")
	}
	return netip.MustParsePrefix("::/0")
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}

// Addresses lists the addresses of a device, link-local ones included.
func (h *Host) Addresses(dev string) ([]netip.Addr, error) {
	l, err := h.nl.LinkByName(dev)
	if err != nil {
		return nil, fmt.Errorf("nettest: host %s: find %s: %w", h.Name, dev, err)
	}
	list, err := h.nl.AddrList(l, unix.AF_UNSPEC)
	if err != nil {
		return nil, fmt.Errorf("nettest: host %s: addresses of %s: %w", h.Name, dev, err)
	}
	var out []netip.Addr
	for _, a := range list {
		if x, ok := netip.AddrFromSlice(a.IP); ok {
			out = append(out, x.Unmap())
		}
	}
	return out, nil
}
