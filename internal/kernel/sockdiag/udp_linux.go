// Package sockdiag ends sockets of other processes. It owns none of them and does not choose which.
package sockdiag

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// Numbers of linux/sock_diag.h and linux/inet_diag.h.
const (
	byFamily  = 20
	destroy   = 21
	connected = 1 << 1 // state ESTABLISHED, which for UDP means connected

	idSize   = 48 // struct inet_diag_sockid
	idInMsg  = 4  // where it is in struct inet_diag_msg
	cookieAt = 40 // where the cookie is in it
)

// DestroyUDP ends connected UDP sockets of a network namespace, told by their cookies: what their owners do next with them
// fails with ECONNABORTED. nil is the caller's own namespace. It returns how many there were.
func DestroyUDP(ns *netns.NS, cookies []uint64) (int, error) {
	cfg := &netlink.Config{}
	if ns != nil {
		cfg.NetNS = ns.Fd()
	}
	c, err := netlink.Dial(unix.NETLINK_SOCK_DIAG, cfg)
	if err != nil {
		return 0, fmt.Errorf("sockdiag: open: %w", err)
	}
	defer c.Close()
	wanted := make(map[uint64]bool, len(cookies))
	for _, k := range cookies {
		wanted[k] = true
	}
	n := 0
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		ids, err := list(c, family, wanted)
		if err != nil {
			return n, fmt.Errorf("sockdiag: list UDP sockets: %w", err)
		}
		for _, id := range ids {
			_, err := c.Execute(message(family, destroy, 0, id))
			switch {
			case errors.Is(err, unix.ENOENT): // closed by now
			case err != nil:
				return n, fmt.Errorf("sockdiag: end a UDP socket: %w (CONFIG_INET_DIAG_DESTROY and the capability NET_ADMIN are needed)", err)
			default:
				n++
			}
		}
	}
	return n, nil
}

// list returns the identities of the connected sockets that are wanted.
func list(c *netlink.Conn, family uint8, wanted map[uint64]bool) ([][]byte, error) {
	msgs, err := c.Execute(message(family, byFamily, netlink.Dump, nil))
	if err != nil {
		return nil, err
	}
	var out [][]byte
	for _, m := range msgs {
		if len(m.Data) < idInMsg+idSize {
			continue
		}
		id := m.Data[idInMsg : idInMsg+idSize]
		if wanted[uint64(word(id[cookieAt:]))|uint64(word(id[cookieAt+4:]))<<32] {
			out = append(out, id)
		}
	}
	return out, nil
}

func word(b []byte) uint32 { return binary.NativeEndian.Uint32(b) }

// message is a struct inet_diag_req_v2.
func message(family uint8, kind netlink.HeaderType, flags netlink.HeaderFlags, id []byte) netlink.Message {
	b := []byte{family, unix.IPPROTO_UDP, 0, 0}
	b = binary.NativeEndian.AppendUint32(b, connected)
	b = append(b, make([]byte, idSize)...)
	copy(b[8:], id)
	if flags == 0 {
		flags = netlink.Acknowledge
	}
	return netlink.Message{Header: netlink.Header{Type: kind, Flags: netlink.Request | flags}, Data: b}
}
