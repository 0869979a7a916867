package ebpf

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
)

// Sizes of the structures in bpf/maps.h, in bytes.
const (
	frontSize  = 20
	slotSize   = 24
	memberSize = 40
)

// The lists of a port, and the flags of a service.
const (
	clusterList = 0
	localList   = 1
	servingList = 2

	nodeOnly = 1
)

// front is a frontend, or the name of a list of endpoints.
type front struct {
	addr  netip.AddrPort
	proto flow.Proto
	list  byte
}

func (f front) append(b []byte) []byte {
	return append(appendAddr(b, f.addr), f.proto.Number(), f.list)
}

func appendAddr(b []byte, a netip.AddrPort) []byte {
	as16 := a.Addr().As16()
	return binary.BigEndian.AppendUint16(append(b, as16[:]...), a.Port())
}

func appendEndpoint(b []byte, a netip.AddrPort) []byte { return append(appendAddr(b, a), 0, 0) }

func protoOf(n byte) flow.Proto {
	switch n {
	case 6:
		return flow.TCP
	case 17:
		return flow.UDP
	}
	return flow.Proto(fmt.Sprint("protocol ", n))
}

func addrOf(b string) netip.AddrPort {
	a, _ := netip.AddrFromSlice([]byte(b[:16]))
	return netip.AddrPortFrom(a.Unmap(), uint16(b[16])<<8|uint16(b[17]))
}

func frontOf(b string) front { return front{addrOf(b), protoOf(b[18]), b[19]} }

// String is "tcp 10.96.0.7:80", and the list unless it is the first.
func (f front) String() string {
	s := string(f.proto) + " " + f.addr.String()
	switch f.list {
	case clusterList:
		return s
	case localList:
		return s + " local"
	case servingList:
		return s + " serving"
	}
	return fmt.Sprintf("%s list %d", s, f.list)
}

// service is the value of the map services.
type service struct {
	list     front
	count    uint32
	affinity uint32 // seconds
	flags    uint32
}

func (s service) append(b []byte) []byte {
	b = s.list.append(b)
	for _, n := range []uint32{s.count, s.affinity, s.flags} {
		b = binary.NativeEndian.AppendUint32(b, n)
	}
	return b
}

func serviceOf(b string) service {
	n := func(at int) uint32 { return binary.NativeEndian.Uint32([]byte(b[at:])) }
	return service{frontOf(b), n(20), n(24), n(28)}
}

func (s service) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %d endpoints", s.list, s.count)
	if s.affinity > 0 {
		fmt.Fprintf(&b, ", affinity %ds", s.affinity)
	}
	if s.flags&nodeOnly != 0 {
		b.WriteString(", the node's own sockets")
	}
	return b.String()
}

// slotKey is the key of the n-th endpoint of a list.
func slotKey(list front, n uint32) string {
	return string(binary.NativeEndian.AppendUint32(list.append(make([]byte, 0, slotSize)), n))
}

// connection is what a program notes of a connected UDP socket.
type connection struct {
	netns    uint64 // cookie
	endpoint netip.AddrPort
	at       front // what was asked for
	list     front
}

func connectionOf(b string) connection {
	return connection{binary.NativeEndian.Uint64([]byte(b)), addrOf(b[8:]), frontOf(b[28:]), frontOf(b[48:])}
}

func slotNumber(key string) uint32 { return binary.NativeEndian.Uint32([]byte(key[frontSize:])) }

func cookieOf(key string) uint64 { return binary.NativeEndian.Uint64([]byte(key)) }
