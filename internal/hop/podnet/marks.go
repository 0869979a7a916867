package podnet

import (
	"context"
	"fmt"
)

// Marks are what Remove would take away, one line for each, and the number of Pods whose links it would cut off.
func (h *Hop) Marks(ctx context.Context) (out []string, pods int, err error) {
	have, err := h.read(ctx)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range have.Routes {
		out = append(out, fmt.Sprintf("route %s", r))
	}
	if have.Tunnel != nil {
		out = append(out, "device "+TunnelDevice)
	}
	for i, t := range have.Tables {
		if t != nil {
			out = append(out, fmt.Sprintf("nftables table %s %s", families[i], Table))
		}
	}
	return out, len(have.Veths), nil
}
