package route

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/rtnl"
)

// Kernel is the Door and the NeighbourDoor of a real network namespace. It is safe for concurrent use.
type Kernel struct{ nl *netlink.Handle }

// Open opens the namespace's main table; nil is the calling thread's namespace.
func Open(ns *netns.NS) (*Kernel, error) {
	k := &Kernel{}
	open := func() (err error) {
		if k.nl, err = netlink.NewHandle(unix.NETLINK_ROUTE); err != nil {
			return fmt.Errorf("route: open netlink: %w", err)
		}
		return nil
	}
	if ns == nil {
		return k, open()
	}
	return k, ns.Do(open)
}

// Close lets go of the namespace.
func (k *Kernel) Close() { k.nl.Close() }

// Routes returns ordinary and unreachable routes of the main table.
func (k *Kernel) Routes() ([]Route, error) {
	names, err := k.names()
	if err != nil {
		return nil, err
	}
	filter := &netlink.Route{Table: unix.RT_TABLE_MAIN}
	raw, err := rtnl.List(func() ([]netlink.Route, error) {
		return k.nl.RouteListFiltered(netlink.FAMILY_ALL, filter, netlink.RT_FILTER_TABLE)
	})
	if err != nil {
		return nil, fmt.Errorf("route: list: %w", err)
	}
	var out []Route
	for _, r := range raw {
		if c := convert(r, names); c.Dst.IsValid() && !c.Dst.Addr().IsLinkLocalUnicast() && !c.Dst.Addr().IsMulticast() {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, Route.Compare)
	return out, nil
}

// Put makes or changes a route.
func (k *Kernel) Put(r Route) error {
	raw, err := k.raw(r)
	if err != nil {
		return err
	}
	err = k.nl.RouteAdd(raw) // fails when there is one
	if errors.Is(err, unix.EEXIST) {
		return k.replace(r, raw)
	}
	if err != nil {
		return fmt.Errorf("route: put %s: %w", r, err)
	}
	return nil
}

// replace looks whose the route is that stands in r's place.
func (k *Kernel) replace(r Route, raw *netlink.Route) error {
	same, err := rtnl.List(func() ([]netlink.Route, error) {
		return k.nl.RouteListFiltered(raw.Family, &netlink.Route{Table: unix.RT_TABLE_MAIN, Dst: raw.Dst}, netlink.RT_FILTER_TABLE|netlink.RT_FILTER_DST)
	})
	if err != nil {
		return fmt.Errorf("route: look for %s: %w", r.Dst, err)
	}
	for _, o := range same {
		have, err := k.named(o)
		switch {
		case err != nil:
			return err
		case have == r:
			return nil
		case have.Metric == r.Metric && have.Proto != r.Proto:
			return fmt.Errorf("route: put %s: %w: %s", r, ErrTaken, have)
		}
	}
	if err := k.nl.RouteReplace(raw); err != nil {
		return fmt.Errorf("route: put %s: %w", r, err)
	}
	return nil
}

// Delete removes a route.
func (k *Kernel) Delete(r Route) error {
	raw, err := k.raw(r)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := k.nl.RouteDel(raw); err != nil && !errors.Is(err, unix.ESRCH) && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("route: delete %s: %w", r, err)
	}
	return nil
}

// Lookup asks the kernel for its decision.
func (k *Kernel) Lookup(dst, src netip.Addr, in string) (Route, error) {
	opt := &netlink.RouteGetOptions{FIBMatch: true}
	if in != "" {
		opt.Iif, opt.SrcAddr = in, src.AsSlice()
	}
	found, err := k.nl.RouteGetWithOptions(dst.AsSlice(), opt)
	if errors.Is(err, unix.ENETUNREACH) || errors.Is(err, unix.EHOSTUNREACH) {
		return Route{}, fmt.Errorf("route: to %s: %w", dst, ErrNoRoute)
	}
	if err != nil {
		return Route{}, fmt.Errorf("route: look up %s: %w", dst, err)
	}
	if len(found) == 0 {
		return Route{}, fmt.Errorf("route: to %s: %w", dst, ErrNoRoute)
	}
	return k.named(found[0])
}

// named converts one route.
func (k *Kernel) named(r netlink.Route) (Route, error) {
	names := map[int]string{}
	if r.LinkIndex != 0 {
		l, err := k.nl.LinkByIndex(r.LinkIndex)
		if err != nil {
			return Route{}, fmt.Errorf("route: device of the route to %s: %w", r.Dst, err)
		}
		names[r.LinkIndex] = l.Attrs().Name
	}
	return convert(r, names), nil
}

// AwaitLocal waits until the host answers to an address that was just given to one of its devices: the kernel makes an
// IPv6 address usable a little later, and drops what arrives before.
func (k *Kernel) AwaitLocal(a netip.Addr, patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		r, err := k.Lookup(a, netip.Addr{}, "")
		if err == nil && r.Type == Local {
			return nil
		}
		if err != nil && !errors.Is(err, ErrNoRoute) {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("route: %s is not usable after %s", a, patience)
		}
	}
}

func (k *Kernel) names() (map[int]string, error) {
	links, err := rtnl.List(k.nl.LinkList)
	if err != nil {
		return nil, fmt.Errorf("route: list devices: %w", err)
	}
	out := make(map[int]string, len(links))
	for _, l := range links {
		out[l.Attrs().Index] = l.Attrs().Name
	}
	return out, nil
}

func (k *Kernel) index(device string) (int, error) {
	l, err := k.nl.LinkByName(device)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return 0, fmt.Errorf("route: device %s: %w", device, unix.ENODEV)
	}
	if err != nil {
		return 0, fmt.Errorf("route: device %s: %w", device, err)
	}
	return l.Attrs().Index, nil
}

// raw is the route in netlink's words.
func (k *Kernel) raw(r Route) (*netlink.Route, error) {
	out := &netlink.Route{
		Table: unix.RT_TABLE_MAIN, Protocol: netlink.RouteProtocol(r.Proto), Priority: r.metric(), Family: family(r.Dst.Addr()),
		Dst: &net.IPNet{IP: r.Dst.Addr().AsSlice(), Mask: net.CIDRMask(r.Dst.Bits(), r.Dst.Addr().BitLen())},
	}
	if r.Type == Unreachable {
		out.Type = unix.RTN_UNREACHABLE
		return out, nil
	}
	if r.Type != "" {
		return nil, fmt.Errorf("route: a route of type %q: %w", r.Type, errors.ErrUnsupported)
	}
	index, err := k.index(r.Device)
	if err != nil {
		return nil, err
	}
	out.LinkIndex, out.Type = index, unix.RTN_UNICAST
	if r.Via.IsValid() {
		out.Gw = r.Via.AsSlice()
	} else {
		out.Scope = netlink.SCOPE_LINK
	}
	if r.Src.IsValid() {
		out.Src = r.Src.AsSlice()
	}
	if r.OnLink {
		out.Flags = int(netlink.FLAG_ONLINK)
	}
	return out, nil
}

func convert(r netlink.Route, names map[int]string) Route {
	out := Route{Device: names[r.LinkIndex], Proto: int(r.Protocol), Metric: r.Priority, OnLink: r.Flags&int(netlink.FLAG_ONLINK) != 0}
	out.Via, out.Src = addr(r.Gw), addr(r.Src)
	if r.Dst != nil {
		bits, _ := r.Dst.Mask.Size()
		out.Dst = netip.PrefixFrom(addr(r.Dst.IP), bits)
	} else if r.Family == netlink.FAMILY_V6 {
		out.Dst = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	} else {
		out.Dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	if out.Dst.Addr().Is6() && out.Metric == defaultMetric6 {
		out.Metric = 0
	}
	switch r.Type {
	case unix.RTN_UNICAST, unix.RTN_UNSPEC:
	case unix.RTN_LOCAL:
		out.Type = Local
	case unix.RTN_UNREACHABLE:
		out.Type, out.Device = Unreachable, "" // IPv6 says "dev lo"
	case unix.RTN_BLACKHOLE:
		out.Type = Blackhole
	default:
		out.Type = Other
	}
	return out
}

func family(a netip.Addr) int {
	if a.Is4() {
		return netlink.FAMILY_V4
	}
	return netlink.FAMILY_V6
}

// addr converts an address; netlink gives some IPv4 ones in 16 bytes.
func addr(b net.IP) netip.Addr {
	a, _ := netip.AddrFromSlice(b)
	return a.Unmap()
}
