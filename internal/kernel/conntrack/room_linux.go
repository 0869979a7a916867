package conntrack

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/sysctl"
)

// Numbers of linux/netfilter/nfnetlink_conntrack.h.
const (
	msgStatsCPU = unix.NFNL_SUBSYS_CTNETLINK<<8 | 4

	attrCPUDrop, attrCPUEarlyDrop = 10, 11
)

// The size of the table. Netlink has it too, in an answer that is marked as one of several and is the only one: who waits
// for the others waits for ever.
const (
	keyEntries    = "net/netfilter/nf_conntrack_count"
	keyMaxEntries = "net/netfilter/nf_conntrack_max"
)

// Room implements Counter.
func (c *Conn) Room(ctx context.Context) (Room, error) {
	var out Room
	if err := ctx.Err(); err != nil {
		return out, err
	}
	settings := sysctl.Open(c.ns)
	for key, to := range map[string]*int{keyEntries: &out.Entries, keyMaxEntries: &out.Max} {
		text, err := settings.Get(key)
		if err == nil {
			*to, err = strconv.Atoi(text)
		}
		if err != nil {
			return out, fmt.Errorf("conntrack: count entries: %w", err)
		}
	}
	err := c.numbers(msgStatsCPU, netlink.Request|netlink.Dump, func(attr uint16, n uint32) {
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
