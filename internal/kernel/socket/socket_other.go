//go:build !linux

package socket

import "net/netip"

// OOBSize is room enough for the control messages of a datagram.
const OOBSize = 0

func share(int) error { return nil }

func shareDatagrams(int, netip.Addr) error { return nil }

// Reply knows nothing here: answers leave from the address that the system chooses.
func Reply([]byte) []byte { return nil }
