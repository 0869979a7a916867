package hostport

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/nft"
)

// Doors is what Sync touches.
type Doors struct {
	Rules nft.Kernel
	// Flows opens the table of tracked connections, which is needed only when a UDP port leads elsewhere than before.
	Flows func() (conntrack.Table, error)
	// Local are the node's own addresses.
	Local func() ([]netip.Addr, error)
}

var families = []nft.Family{nft.IPv4, nft.IPv6}

// Sync makes the tables what the reservations say, and returns how many it changed. Rules come first, then UDP connections
// that still go the old way: a sender that never pauses would otherwise reach a Pod that is gone for ever.
func Sync(ctx context.Context, store *ipam.Store, d Doors) (n int, err error) {
	err = store.Locked(func(all []ipam.Reservation) error {
		for _, f := range families {
			have, err := d.Rules.Read(ctx, f, Table)
			if err != nil {
				return err
			}
			want := render(f, all)
			ops := nft.Diff(have, want)
			if len(ops) == 0 {
				continue
			}
			if err := d.Rules.Apply(ctx, ops); err != nil {
				return err
			}
			n++
			if err := d.forget(ctx, changed(have, want), udp(want)); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return n, fmt.Errorf("hostport: sync: %w", err)
	}
	return n, nil
}

// Differ reports whether the tables are other than the reservations say.
func Differ(ctx context.Context, all []ipam.Reservation, rules nft.Kernel) (bool, error) {
	for _, f := range families {
		have, err := rules.Read(ctx, f, Table)
		if err != nil {
			return false, err
		}
		if !have.Equal(render(f, all)) {
			return true, nil
		}
	}
	return false, nil
}

// forget deletes UDP connections to changed ports of the node that are answered by somebody else than the port's Pod.
func (d Doors) forget(ctx context.Context, ports []netip.AddrPort, targets map[netip.AddrPort]netip.AddrPort) error {
	if len(ports) == 0 {
		return nil
	}
	local, err := d.Local()
	if err != nil {
		return err
	}
	flows, err := d.Flows()
	if err != nil {
		return err
	}
	defer flows.Close()
	_, err = flows.Delete(ctx, conntrack.UDP, func(e conntrack.Entry) bool {
		if !slices.Contains(local, e.Dst.Addr()) {
			return false
		}
		for _, p := range ports {
			if p.Port() == e.Dst.Port() && p.Addr().Is4() == e.Dst.Addr().Is4() && (p.Addr().IsUnspecified() || p.Addr() == e.Dst.Addr()) {
				return e.AnswerSrc != targets[p]
			}
		}
		return false
	})
	return err
}
