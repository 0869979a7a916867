package nft

import (
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// RawExpr is one expression of a rule as the kernel tells it, for rules that another program wrote and this package has
// no words for. Attrs is valid only while the callback runs.
type RawExpr struct {
	Name  string
	Attrs []byte
}

// EachAttr calls f for each attribute of a level.
func EachAttr(b []byte, f func(typ uint16, v []byte)) { attrs(b, f) }

// ChainNames returns the chains of a table and whether each is at a hook of the kernel's; nil when there is no such table.
func (c *Conn) ChainNames(ctx context.Context, f Family, table string) (map[string]bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	out := map[string]bool{}
	err := c.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, f, func(*buffer) {}, func(a map[uint16][]byte) {
		if cstr(a[unix.NFTA_CHAIN_TABLE]) == table {
			_, base := a[unix.NFTA_CHAIN_HOOK]
			out[cstr(a[unix.NFTA_CHAIN_NAME])] = base
		}
	})
	if err != nil {
		return nil, fmt.Errorf("nft: list chains of table %s %s: %w", f, table, err)
	}
	return out, nil
}

// HasChain reports whether a table has a chain.
func (c *Conn) HasChain(ctx context.Context, f Family, table, chain string) (bool, error) {
	if err := ctx.Err(); err != nil {
		return false, err
	}
	there := false
	err := c.ask(unix.NFT_MSG_GETCHAIN, 0, f, func(w *buffer) {
		w.str(unix.NFTA_CHAIN_TABLE, table)
		w.str(unix.NFTA_CHAIN_NAME, chain)
	}, func(map[uint16][]byte) { there = true })
	if errors.Is(err, unix.ENOENT) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("nft: look for chain %s of table %s %s: %w", chain, f, table, err)
	}
	return there, nil
}

// RawRules calls f for each rule of one chain, with its expressions and its comment; of a chain that is not
// there it calls it for none.
func (c *Conn) RawRules(ctx context.Context, f Family, table, chain string, each func(exprs []RawExpr, note string)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	var room []RawExpr
	err := c.ask(unix.NFT_MSG_GETRULE, unix.NLM_F_DUMP, f, func(w *buffer) {
		w.str(unix.NFTA_RULE_TABLE, table)
		w.str(unix.NFTA_RULE_CHAIN, chain)
	}, func(a map[uint16][]byte) {
		if cstr(a[unix.NFTA_RULE_CHAIN]) != chain || cstr(a[unix.NFTA_RULE_TABLE]) != table {
			return
		}
		room = room[:0]
		attrs(a[unix.NFTA_RULE_EXPRESSIONS], func(_ uint16, b []byte) {
			var e RawExpr
			attrs(b, func(t uint16, v []byte) {
				switch t {
				case unix.NFTA_EXPR_NAME:
					e.Name = cstr(v)
				case unix.NFTA_EXPR_DATA:
					e.Attrs = v
				}
			})
			room = append(room, e)
		})
		each(room, comment(a[unix.NFTA_RULE_USERDATA], udataRuleComment))
	})
	if err != nil && !errors.Is(err, errChanged) {
		return fmt.Errorf("nft: read chain %s of table %s %s: %w", chain, f, table, err)
	}
	return err
}

// Changed reports whether an error says that tables changed while they were read, so that it should be tried again.
func Changed(err error) bool { return errors.Is(err, errChanged) }
