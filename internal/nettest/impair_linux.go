package nettest

import (
	"fmt"
	"time"

	"github.com/vishvananda/netlink"
)

// Impairment is what a bad path does to packets; percentages are of all packets.
type Impairment struct {
	Delay, Jitter time.Duration
	Loss, Reorder float32 // percent; what is reordered overtakes the others' delay
}

// Impair makes what leaves the host by a device meet a bad path. The kernel needs netem, which mostly only machines of
// package vm have.
func (h *Host) Impair(dev string, i Impairment) error {
	l, err := h.nl.LinkByName(dev)
	if err != nil {
		return fmt.Errorf("nettest: host %s: find %s: %w", h.Name, dev, err)
	}
	q := netlink.NewNetem(netlink.QdiscAttrs{LinkIndex: l.Attrs().Index, Handle: netlink.MakeHandle(1, 0), Parent: netlink.HANDLE_ROOT},
		netlink.NetemQdiscAttrs{Latency: uint32(i.Delay.Microseconds()), Jitter: uint32(i.Jitter.Microseconds()), Loss: i.Loss, ReorderProb: i.Reorder})
	if err := h.nl.QdiscReplace(q); err != nil {
		return fmt.Errorf("nettest: host %s: impair %s: %w", h.Name, dev, err)
	}
	return nil
}
