package ipvs

import (
	"context"

	"github.com/podway/podway/internal/hop/proxy"
)

// Owns implements proxy.Owner: by the tables, since kube-proxy has the same device. They are made first and removed last.
func (b *Backend) Owns(ctx context.Context) (bool, error) {
	k, err := b.doors.NFT()
	if err != nil {
		return false, err
	}
	defer k.Close()
	r, err := gather(ctx, proxy.Node{}, k.Look)
	return err == nil && len(r.tables) > 0, err
}

// IPTablesCounts implements proxy.IPTablesCounter with what the tables stand for: kube-proxy restores iptables around its
// virtual servers. A write is of both families.
func (b *Backend) IPTablesCounts() proxy.IPTablesCounts {
	return proxy.IPTablesCounts{Failures: map[string]int{"IPv4": b.failures, "IPv6": b.failures}}
}
