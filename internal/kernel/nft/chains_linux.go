package nft

import (
	"context"
	"fmt"

	"golang.org/x/sys/unix"
)

// BaseChains returns the chains at a hook in all tables of all families, other programs' included: their names and
// policies, not their rules.
func (c *Conn) BaseChains(ctx context.Context, h Hook) ([]BaseChain, error) {
	var out []BaseChain
	for _, f := range []Family{IPv4, Inet, IPv6} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		err := c.ask(unix.NFT_MSG_GETCHAIN, unix.NLM_F_DUMP, f, func(*buffer) {}, func(a map[uint16][]byte) {
			hook, ok := a[unix.NFTA_CHAIN_HOOK]
			if !ok || Hook(be32(tree(hook)[unix.NFTA_HOOK_HOOKNUM])) != h {
				return
			}
			out = append(out, BaseChain{
				Family: f, Table: cstr(a[unix.NFTA_CHAIN_TABLE]), Chain: cstr(a[unix.NFTA_CHAIN_NAME]),
				Drop: be32(a[unix.NFTA_CHAIN_POLICY]) == 0,
			})
		})
		if err != nil {
			return nil, fmt.Errorf("nft: list chains at %s: %w", h, err)
		}
	}
	return out, nil
}
