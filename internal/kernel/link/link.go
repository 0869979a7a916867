// Package link is the door to network devices: it lists them with their addresses, makes and mends VXLAN tunnels and veth
// pairs, and deletes devices. It owns no device and knows nothing of Pods; names and marks are its callers' matter.
package link

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// Kinds of devices that podway makes. A listed device may be of any other kind.
const (
	KindVeth  = "veth"
	KindVXLAN = "vxlan"
)

// ErrForeign says that a device has the wanted name and is of another kind, so that it is somebody else's.
var ErrForeign = errors.New("a device of another kind has this name")

// MAC is an Ethernet address; the zero MAC stands for none, or for one that the kernel chooses.
type MAC [6]byte

// String is the usual notation, 02:42:0a:00:00:01.
func (m MAC) String() string { return net.HardwareAddr(m[:]).String() }

// Link is a network device.
type Link struct {
	Name  string
	Index int    // set by the kernel
	Kind  string // veth, vxlan, bridge, ...; "" for hardware and loopback
	MAC   MAC
	MTU   int
	Up    bool
	Alias string
	NoARP bool // has no neighbours in the sense of Ethernet: loopback, tun, wireguard
	// Addrs are the device's addresses, sorted, without IPv6 link-local ones.
	Addrs []netip.Prefix
	VXLAN *VXLAN // of a tunnel
}

// VXLAN is what a tunnel device has beyond other devices. It learns nothing: all its peers are told to it.
type VXLAN struct {
	VNI        int
	Port       uint16
	Local      netip.Addr // outer source address; its family is the family of the underlay
	TxChecksum bool       // leave inner checksums to the hardware, which is broken in some kernels and network cards
}

// Equal reports whether two devices are the same to their user; the index is not compared.
func (l Link) Equal(o Link) bool {
	return l.Name == o.Name && l.Kind == o.Kind && l.MAC == o.MAC && l.MTU == o.MTU && l.Up == o.Up && l.Alias == o.Alias &&
		slices.Equal(l.Addrs, o.Addrs) && sameTunnel(l.VXLAN, o.VXLAN)
}

func sameTunnel(a, b *VXLAN) bool {
	if a == nil || b == nil {
		return a == b
	}
	return *a == *b
}

// String is one line for people and golden files.
func (l Link) String() string {
	s := fmt.Sprintf("%s %s mac %s mtu %d", cmp.Or(l.Kind, "device"), l.Name, l.MAC, l.MTU)
	if t := l.VXLAN; t != nil {
		s += fmt.Sprintf(" vni %d port %d local %s tx-checksum %t", t.VNI, t.Port, t.Local, t.TxChecksum)
	}
	for _, a := range l.Addrs {
		s += " addr " + a.String()
	}
	if !l.Up {
		s += " down"
	}
	return s
}

// Door is what podway may do to the devices of one network namespace.
type Door interface {
	// List returns all devices by name.
	List() ([]Link, error)
	// Get returns a device, and whether there is one of that name.
	Get(name string) (Link, bool, error)
	// Put makes the tunnel device, or mends the one that is there: addresses that are not in l go, and a device whose
	// VXLAN or MAC differs is made anew. ErrForeign when the name belongs to a device of another kind.
	Put(l Link) error
	// Delete removes a device with all that hangs on it; one that is not there is no error.
	Delete(name string) error
}

// SortAddrs puts addresses in the order in which List returns them.
func SortAddrs(p []netip.Prefix) {
	slices.SortFunc(p, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
}
