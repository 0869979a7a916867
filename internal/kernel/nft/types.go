package nft

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// Type is the type of one field of a key or of a map's data. Its numbers are those of the nft command, which the kernel
// only stores, so that `nft list` shows elements in words.
type Type uint8

// The types.
const (
	IPv4Addr Type = 7  // 4 bytes
	IPv6Addr Type = 8  // 16 bytes
	Proto    Type = 12 // 1 byte: IPPROTO_*
	Service  Type = 13 // 2 bytes: port
	Mark     Type = 19 // 4 bytes in the host's byte order
	IfName   Type = 41 // 16 bytes
)

// AddrType is the type of the family's addresses.
func AddrType(f Family) Type {
	if f == IPv6 {
		return IPv6Addr
	}
	return IPv4Addr
}

// Len is the length in bytes, unpadded.
func (t Type) Len() int {
	switch t {
	case IPv4Addr, Mark:
		return 4
	case IPv6Addr, IfName:
		return 16
	case Proto:
		return 1
	case Service:
		return 2
	}
	return 0
}

// String is nft's name of the type.
func (t Type) String() string {
	switch t {
	case IPv4Addr:
		return "ipv4_addr"
	case IPv6Addr:
		return "ipv6_addr"
	case Proto:
		return "inet_proto"
	case Service:
		return "inet_service"
	case Mark:
		return "mark"
	case IfName:
		return "ifname"
	}
	return "type" + strconv.Itoa(int(t))
}

// padded is the room a field takes in a concatenation and in registers.
func (t Type) padded() int { return (t.Len() + 3) &^ 3 }

// size is the length of a key or value as this package keeps it: every field padded.
func size(ts []Type) int {
	n := 0
	for _, t := range ts {
		n += t.padded()
	}
	return n
}

// wire is the length that the kernel is told: a lone field is not padded.
func wire(ts []Type) int {
	if len(ts) == 1 {
		return ts[0].Len()
	}
	return size(ts)
}

// The transport protocol numbers.
const (
	ICMP   uint8 = 1
	TCP    uint8 = 6
	UDP    uint8 = 17
	ICMPv6 uint8 = 58
	SCTP   uint8 = 132
)

// protoNames are nft's words for protocols in elements.
var protoNames = map[uint8]string{ICMP: "icmp", TCP: "tcp", UDP: "udp", ICMPv6: "ipv6-icmp", SCTP: "sctp"}

// Key collects the fields of a key or of a map's data in the kernel's layout.
type Key []byte

// Addr adds an address: 4 bytes for IPv4, 16 for IPv6.
func (k Key) Addr(a netip.Addr) Key {
	if a.Is4() {
		b := a.As4()
		return append(k, b[:]...)
	}
	b := a.As16()
	return append(k, b[:]...)
}

// Proto adds a transport protocol number.
func (k Key) Proto(p uint8) Key { return append(k, p, 0, 0, 0) }

// Port adds a port.
func (k Key) Port(p uint16) Key { return append(k, byte(p>>8), byte(p), 0, 0) }

// Mark adds a 32-bit number in the host's byte order.
func (k Key) Mark(m uint32) Key { return binary.NativeEndian.AppendUint32(k, m) }

// String returns the bytes as an element's key or value.
func (k Key) String() string { return string(k) }

// Fields cuts a key or value into its fields' bytes, unpadded. It returns nil when the length is not that of the types.
func Fields(ts []Type, s string) []string {
	if len(s) != size(ts) {
		return nil
	}
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i], s = s[:t.Len()], s[t.padded():]
	}
	return out
}

// format is nft's way to write a field.
func (t Type) format(s string) string {
	b := []byte(s)
	switch {
	case t == IfName && len(b) < t.Len(): // all names that begin so
		return strconv.Quote(s + "*")
	case len(b) < t.Len() || t.Len() == 0:
		return fmt.Sprintf("0x%x", b)
	case t == IPv4Addr || t == IPv6Addr:
		a, _ := netip.AddrFromSlice(b[:t.Len()])
		return a.String()
	case t == Proto:
		if n, ok := protoNames[b[0]]; ok {
			return n
		}
		return strconv.Itoa(int(b[0]))
	case t == Service:
		return strconv.Itoa(int(binary.BigEndian.Uint16(b)))
	case t == Mark:
		return fmt.Sprintf("0x%08x", binary.NativeEndian.Uint32(b))
	}
	return strconv.Quote(strings.TrimRight(s, "\x00"))
}

// FormatFields writes a key or value in nft's syntax: fields joined by " . ".
func FormatFields(ts []Type, s string) string {
	fields := Fields(ts, s)
	if fields == nil {
		return fmt.Sprintf("0x%x", s)
	}
	for i, t := range ts {
		fields[i] = t.format(fields[i])
	}
	return strings.Join(fields, " . ")
}

// PortOf, MarkOf and AddrOf read back a field of Fields.
func PortOf(s string) uint16 { return uint16(s[0])<<8 | uint16(s[1]) }

// MarkOf reads a 32-bit number in the host's byte order.
func MarkOf(s string) uint32 { return binary.NativeEndian.Uint32([]byte(s)) }

// AddrOf reads an address of 4 or 16 bytes.
func AddrOf(s string) netip.Addr {
	a, _ := netip.AddrFromSlice([]byte(s))
	return a
}
