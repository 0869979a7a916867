package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// dormant is the flag of a table (linux/netfilter/nf_tables.h) whose chains no packet passes.
const dormant = 1

// Sleeps reports whether there is a table, and whether it is out of force.
func (c *Conn) Sleeps(_ context.Context, f Family, name string) (exists, asleep bool, err error) {
	err = c.ask(unix.NFT_MSG_GETTABLE, 0, f, func(w *buffer) { w.str(unix.NFTA_TABLE_NAME, name) }, func(a map[uint16][]byte) {
		exists, asleep = true, be32(a[unix.NFTA_TABLE_FLAGS])&dormant != 0
	})
	if errors.Is(err, unix.ENOENT) {
		return false, false, nil
	}
	if err != nil {
		return false, false, fmt.Errorf("nft: table %s %s: %w", f, name, err)
	}
	return exists, asleep, nil
}

// Sleep takes a table out of force with all that is in it, or puts it back, in one moment. Nothing of it is lost, whatever
// kinds of rules it has.
func (c *Conn) Sleep(ctx context.Context, f Family, name string, asleep bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	w := &batch{seq: c.seq, ops: []Op{{Kind: AddTable, Table: NewTable(f, name)}}}
	at := w.message(unix.NFNL_MSG_BATCH_BEGIN, 0, w.next(-1), 0, unix.NFNL_SUBSYS_NFTABLES)
	w.done(at)
	at = w.begin(unix.NFT_MSG_NEWTABLE, unix.NLM_F_ACK, w.ops[0].Table)
	w.str(unix.NFTA_TABLE_NAME, name)
	flags := uint32(0)
	if asleep {
		flags = dormant
	}
	w.u32(unix.NFTA_TABLE_FLAGS, flags)
	w.done(at)
	at = w.message(unix.NFNL_MSG_BATCH_END, 0, w.next(-1), 0, unix.NFNL_SUBSYS_NFTABLES)
	w.done(at)
	c.seq += uint32(len(w.of))
	if err := c.send(w.b); err != nil {
		return fmt.Errorf("nft: table %s %s: %w", f, name, err)
	}
	return c.acknowledged(w, binary.NativeEndian.Uint32(w.b[w.last+8:]))
}
