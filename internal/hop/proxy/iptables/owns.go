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
	for _, f := range kipt.Families {
		if !d.Has(f) {
			continue
		}
		if _, mine, err := d.Chain(ctx, f, kipt.Filter, clusterIPs); mine || err != nil {
			return mine, err
		}
	}
	return false, nil
}
