// Package packet sends and receives raw frames of one EtherType on one device (AF_PACKET), and tells which devices a
// network namespace has and when they change. It knows no protocol inside the frames and sets nothing on a device.
package packet

import (
	"net/netip"
)

// MAC is an Ethernet address.
type MAC [6]byte

// Broadcast is the address of all stations.
var Broadcast = MAC{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}

// Interface is a network device as far as frames need it.
type Interface struct {
	Name  string
	Index int
	MAC   MAC            // zero when it has no Ethernet address
	Addrs []netip.Prefix // with the length of their subnet
	Up    bool           // administratively up and with carrier
	NoARP bool           // no ARP on it: loopback, point to point, dummy
	Dummy bool           // holds addresses for other purposes than to be reached there (IFF_NOARP)
	Port  bool           // of a bridge or bond, whose device has the traffic
}

// Frame is what Read returns.
type Frame struct {
	Payload  []byte // behind the Ethernet header; valid until the next Read
	From     MAC
	Outgoing bool // sent by this host
}
