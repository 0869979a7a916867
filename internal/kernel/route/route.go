// Package route is the door to routes of the main table, neighbour entries and forwarding entries of VXLAN devices. It
// never replaces a route that another program made. It owns none of them: whose a route is, its protocol number says.
package route

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/kernel/link"
)

// Types of routes beside the ordinary one, whose type is "".
const (
	Unreachable = "unreachable" // answered with ICMP
	Local       = "local"       // the address is one of this host's own
	Blackhole   = "blackhole"   // silence
	Other       = "other"       // prohibit, broadcast, multicast, ...
)

// ErrTaken says that another program has a route to exactly this destination, of the same metric.
var ErrTaken = errors.New("another program's route leads there")

// ErrNoRoute says that the kernel knows no way to a destination.
var ErrNoRoute = errors.New("no route")

// Route is a way to a destination. Two equal Routes are the same route.
type Route struct {
	Dst    netip.Prefix
	Type   string     // "" = ordinary
	Via    netip.Addr // gateway, or none
	Device string     // "" for an unreachable route
	Src    netip.Addr // preferred source address, or none
	OnLink bool       // Via is on the device although no address of the device says so
	Proto  int        // who made it (/etc/iproute2/rt_protos)
	Metric int        // 0 for an IPv6 route stands for the kernel's default, 1024
}

// String is the route as `ip route` shows it.
func (r Route) String() string {
	s := r.Dst.String()
	if r.Type != "" {
		s = r.Type + " " + s
	}
	if r.Via.IsValid() {
		s += " via " + r.Via.String()
	}
	if r.Device != "" {
		s += " dev " + r.Device
	}
	if r.Src.IsValid() {
		s += " src " + r.Src.String()
	}
	if r.OnLink {
		s += " onlink"
	}
	s += fmt.Sprintf(" proto %d", r.Proto)
	if r.Metric != 0 {
		s += fmt.Sprintf(" metric %d", r.Metric)
	}
	return s
}

// Compare orders routes by destination, the most specific first, then metric.
func (r Route) Compare(o Route) int {
	return cmp.Or(cmp.Compare(r.Dst.Addr().BitLen(), o.Dst.Addr().BitLen()), -cmp.Compare(r.Dst.Bits(), o.Dst.Bits()),
		r.Dst.Addr().Compare(o.Dst.Addr()), cmp.Compare(r.Metric, o.Metric), cmp.Compare(r.Device, o.Device))
}

// Neighbour is a permanent entry of a device: the Ethernet address of an IP address, or when FDB is true (VXLAN devices)
// the outer IP address of the host that has an Ethernet address.
type Neighbour struct {
	Device string
	Addr   netip.Addr
	MAC    link.MAC
	FDB    bool
}

// String is the entry as `ip neigh` and `bridge fdb` show it.
func (n Neighbour) String() string {
	if n.FDB {
		return fmt.Sprintf("fdb %s dev %s dst %s", n.MAC, n.Device, n.Addr)
	}
	return fmt.Sprintf("neigh %s dev %s lladdr %s", n.Addr, n.Device, n.MAC)
}

// Compare orders entries by device, kind, address and Ethernet address.
func (n Neighbour) Compare(o Neighbour) int {
	return cmp.Or(cmp.Compare(n.Device, o.Device), compareBool(n.FDB, o.FDB), n.Addr.Compare(o.Addr), slices.Compare(n.MAC[:], o.MAC[:]))
}

func compareBool(a, b bool) int {
	if a == b {
		return 0
	}
	if b {
		return -1
	}
	return 1
}

// Door is what podway may do to the main routing table of one network namespace.
type Door interface {
	// Routes returns ordinary and unreachable routes of the main table in the order of Compare, other programs' included.
	Routes() ([]Route, error)
	// Put makes the route, or turns the one of the same protocol, destination and metric into it. ErrTaken when one of
	// another protocol is in its place.
	Put(Route) error
	// Delete removes exactly this route; one that is not there is no error.
	Delete(Route) error
	// Lookup is the kernel's own decision about a packet to dst. With in (a device) and src it is about a packet that
	// arrives there. Errors: ErrNoRoute.
	Lookup(dst, src netip.Addr, in string) (Route, error)
}

// NeighbourDoor is what podway may do to the entries of a device.
type NeighbourDoor interface {
	// Neighbours returns the permanent entries of a device in the order of Compare.
	Neighbours(device string) ([]Neighbour, error)
	// PutNeighbour makes the entry or changes the one of the same key: Addr, or MAC when FDB.
	PutNeighbour(Neighbour) error
	// DeleteNeighbour removes the entry; one that is not there is no error.
	DeleteNeighbour(Neighbour) error
}

// Match returns the route of the table that a packet to dst takes: longest prefix, then lowest metric.
func Match(routes []Route, dst netip.Addr) (Route, bool) {
	var best Route
	found := false
	for _, r := range routes {
		if !r.Dst.Contains(dst) {
			continue
		}
		if !found || r.Dst.Bits() > best.Dst.Bits() || r.Dst.Bits() == best.Dst.Bits() && r.metric() < best.metric() {
			best, found = r, true
		}
	}
	return best, found
}

func (r Route) metric() int {
	if r.Metric == 0 && r.Dst.Addr().Is6() {
		return defaultMetric6
	}
	return r.Metric
}

// defaultMetric6 is IP6_RT_PRIO_USER of linux/ipv6_route.h.
const defaultMetric6 = 1024
