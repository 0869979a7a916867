package podnet

import (
	"context"
	"fmt"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/nft"
)

// hooks is what the real door can tell beside nft.Kernel: base chains of other programs, without their rules.
type hooks interface {
	BaseChains(ctx context.Context, h nft.Hook) ([]nft.BaseChain, error)
}

// forwardPolicy looks whether another program's firewall drops forwarded packets unless it knows them. Mending it is that
// program's matter, or the administrator's.
func (h *Hop) forwardPolicy(ctx context.Context) []flow.Finding {
	door, ok := h.doors.rules.(hooks)
	if !ok {
		return nil
	}
	h.rules.Lock()
	defer h.rules.Unlock()
	chains, err := door.BaseChains(ctx, nft.Forward)
	if err != nil {
		return nil // a hint less; Apply did its work
	}
	var out []flow.Finding
	for _, c := range chains {
		if c.Drop {
			out = append(out, finding(flow.ForwardDropped, flow.Warning, h.opt.Node,
				fmt.Sprintf("chain %s of table %s %s on node %s drops forwarded packets that it does not allow", c.Chain, c.Family, c.Table, h.opt.Node)))
		}
	}
	return out
}
