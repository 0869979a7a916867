package iptables

import (
	"context"

	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// Owns implements proxy.Owner. kube-proxy has the same chains, but not this one, which is always there.
func (b *Backend) Owns(ctx context.Context) (bool, error) {
	d, err := b.host()
	if err != nil {
		return false, err
	}
	return owns(ctx, d)
}

func owns(ctx context.Context, d kipt.Door) (bool, error) {
	for _, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		if _, mine, err := d.Look(ctx, f, owned)(kipt.Filter, clusterIPs); mine || err != nil {
			return mine, err
		}
	}
	return false, nil
}
