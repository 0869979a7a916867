package nettest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/podway/podway/internal/kernel/packet"
)

// WhoHas asks by ARP on the host's device eth0 who has the IPv4 address, and returns the Ethernet addresses of all that
// answer within wait, each once.
func (h *Host) WhoHas(ctx context.Context, a netip.Addr, wait time.Duration) ([]packet.MAC, error) {
	if err := h.world.Settle(ctx); err != nil {
		return nil, err
	}
	found, err := h.whoHas(a, wait)
	if err != nil {
		return nil, fmt.Errorf("nettest: host %s: who has %s: %w", h.Name, a, err)
	}
	return found, nil
}

func (h *Host) whoHas(a netip.Addr, wait time.Duration) (found []packet.MAC, err error) {
	if !a.Is4() {
		return nil, errors.New("ARP is for IPv4 addresses")
	}
	l, err := h.nl.LinkByName("eth0")
	if err != nil {
		return nil, err
	}
	c, err := packet.Listen(h.ns, l.Attrs().Index, packet.EtherTypeARP)
	if err != nil {
		return nil, err
	}
	t := time.AfterFunc(wait, func() { c.Close() })
	defer t.Stop()
	if err := c.Write(packet.Broadcast, arpRequest(l.Attrs().HardwareAddr, h.Addrs[0], a)); err != nil {
		return nil, err
	}
	for {
		f, err := c.Read()
		if errors.Is(err, net.ErrClosed) {
			return found, nil
		}
		if err != nil {
			return found, err
		}
		if m, ok := arpReply(f.Payload, a); ok && !f.Outgoing && !slices.Contains(found, m) {
			found = append(found, m)
		}
	}
}

// arpHeader is Ethernet, IPv4 and the lengths of their addresses (RFC 826).
var arpHeader = []byte{0, 1, 8, 0, 6, 4}

func arpRequest(mac net.HardwareAddr, self, who netip.Addr) []byte {
	return slices.Concat(arpHeader, []byte{0, 1}, mac, self.AsSlice(), make([]byte, 6), who.AsSlice())
}

// arpReply returns the Ethernet address when the message is a reply for the address.
func arpReply(p []byte, who netip.Addr) (m packet.MAC, ok bool) {
	if len(p) < 28 || !bytes.HasPrefix(p, arpHeader) || p[6] != 0 || p[7] != 2 || !bytes.Equal(p[14:18], who.AsSlice()) {
		return m, false
	}
	return packet.MAC(p[8:14]), true
}

// MAC is the Ethernet address of the host's device eth0.
func (h *Host) MAC() (packet.MAC, error) {
	l, err := h.nl.LinkByName("eth0")
	if err != nil || len(l.Attrs().HardwareAddr) != 6 {
		return packet.MAC{}, fmt.Errorf("nettest: host %s: find eth0: %w", h.Name, err)
	}
	return packet.MAC(l.Attrs().HardwareAddr), nil
}
