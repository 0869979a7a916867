package socket

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// OOBSize is room enough for the control messages of a datagram.
const OOBSize = 64

func share(fd int) error {
	if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1); err != nil {
		return fmt.Errorf("socket: set SO_REUSEPORT: %w", err)
	}
	return nil
}

func shareDatagrams(fd int, addr netip.Addr) error {
	if err := share(fd); err != nil || !addr.IsUnspecified() {
		return err
	}
	level, opt := unix.IPPROTO_IP, unix.IP_PKTINFO
	if addr.Is6() {
		level, opt = unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO
	}
	if err := unix.SetsockoptInt(fd, level, opt, 1); err != nil {
		return fmt.Errorf("socket: ask for destination addresses: %w", err)
	}
	return nil
}

// Reply turns, in place, the control messages of a datagram into those of its answer: it leaves from the address that
// the datagram was sent to, by whatever device the routes say. It returns nil when there is no destination.
func Reply(oob []byte) []byte {
	for len(oob) >= unix.CmsgLen(0) {
		h, data, rest, err := unix.ParseOneSocketControlMessage(oob)
		if err != nil {
			return nil
		}
		this := oob[:len(oob)-len(rest)]
		switch {
		case h.Level == unix.IPPROTO_IP && h.Type == unix.IP_PKTINFO && len(data) >= unix.SizeofInet4Pktinfo:
			binary.NativeEndian.PutUint32(data, 0) // ifindex; then the source address, then the destination
			return this
		case h.Level == unix.IPPROTO_IPV6 && h.Type == unix.IPV6_PKTINFO && len(data) >= unix.SizeofInet6Pktinfo:
			if data[0] != 0xfe || data[1]&0xc0 != 0x80 { // a link-local address needs its device
				binary.NativeEndian.PutUint32(data[16:], 0)
			}
			return this
		}
		oob = rest
	}
	return nil
}
