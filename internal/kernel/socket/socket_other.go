//go:build !linux

package socket

import (
	"net"
	"net/netip"
)

// OOBSize is room enough for the control messages of a datagram.
const OOBSize = 0

func share(int) error { return nil }

func shareDatagrams(int, netip.Addr) error { return nil }

// Reply knows nothing here: answers leave from the address that the system chooses.
func Reply([]byte) []byte { return nil }

// NewBatch is NewPlain: other systems have no system call for many datagrams.
func NewBatch(c *net.UDPConn, _, question, answer int) (Batch, error) {
	return NewPlain(c, question, answer), nil
}
