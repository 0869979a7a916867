package conntrack

import (
	"context"
	"encoding/binary"
	"fmt"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Numbers of linux/netfilter/nfnetlink_conntrack.h; the global ones exist since Linux 4.18 (entries) and 5.9 (the limit).
const (
	msgStatsCPU = unix.NFNL_SUBSYS_CTNETLINK<<8 | 4
	msgStats    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 5

	attrCPUDrop, attrCPUEarlyDrop = 10, 11
	attrEntries, attrMaxEntries   = 1, 2
)

// Room implements Counter.
func (c *Conn) Room(ctx context.Context) (Room, error) {
	var out Room
	if err := ctx.Err(); err != nil {
		return out, err
	}
	err := c.numbers(msgStats, netlink.Request, func(attr uint16, n uint32) {
		switch attr {
		case attrEntries:
			out.Entries = int(n)
		case attrMaxEntries:
			out.Max = int(n)
		}
	})
	if err != nil {
		return out, fmt.Errorf("conntrack: count entries: %w", err)
	}
	err = c.numbers(msgStatsCPU, netlink.Request|netlink.Dump, func(attr uint16, n uint32) {
		switch attr {
		case attrCPUDrop:
			out.Dropped += uint64(n)
		case attrCPUEarlyDrop:
			out.Evicted += uint64(n)
		}
	})
	if err != nil {
		return out, fmt.Errorf("conntrack: count drops: %w", err)
	}
	return out, nil
}

// numbers asks for messages whose attributes are 32-bit numbers.
func (c *Conn) numbers(kind netlink.HeaderType, flags netlink.HeaderFlags, each func(attr uint16, n uint32)) error {
	msgs, err := c.c.Execute(netlink.Message{
		Header: netlink.Header{Type: kind, Flags: flags},
		Data:   []byte{unix.AF_UNSPEC, unix.NFNETLINK_V0, 0, 0},
	})
	if err != nil {
		return err
	}
	for _, m := range msgs {
		if len(m.Data) < 4 {
			continue
		}
		ad, err := netlink.NewAttributeDecoder(m.Data[4:])
		if err != nil {
			return err
		}
		ad.ByteOrder = binary.BigEndian
		for ad.Next() {
			each(ad.Type(), ad.Uint32())
		}
		if err := ad.Err(); err != nil {
			return err
		}
	}
	return nil
}
