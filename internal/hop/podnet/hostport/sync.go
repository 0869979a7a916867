package hostport

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
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
// that still go the old way: a sender that never pauses would otherwise reach a Pod that is gone for ever. The ports whose
// connections are to be forgotten stand in the store until that is done: once the rules are right, nothing else tells.
func Sync(ctx context.Context, store *ipam.Store, d Doors) (n int, err error) {
	err = store.Locked(func(all []ipam.Reservation) error {
		todo, err := d.plan(ctx, all)
		if err != nil {
			return err
		}
		owed, err := unfinished(store)
		if err != nil {
			return err
		}
		ports := slices.Compact(slices.SortedFunc(slices.Values(append(owed, todo.ports...)), netip.AddrPort.Compare))
		if len(todo.ports) > 0 {
			if err := begin(store, ports); err != nil {
				return err
			}
		}
		for _, ops := range todo.ops {
			if err := d.Rules.Apply(ctx, ops); err != nil {
				return err
			}
			n++
		}
		if len(ports) == 0 {
			return nil
		}
		if err := d.forget(ctx, ports, todo.targets); err != nil {
			return err
		}
		return store.SetUnfinished(nil)
	})
	if err != nil {
		return n, fmt.Errorf("hostport: sync: %w", err)
	}
	return n, nil
}

// work is what makes the tables right: changes of rules by table, the UDP ports that lead elsewhere by them, and where
// every UDP port leads afterwards.
type work struct {
	ops     [][]nft.Op
	ports   []netip.AddrPort
	targets map[netip.AddrPort]netip.AddrPort
}

func (d Doors) plan(ctx context.Context, all []ipam.Reservation) (w work, err error) {
	w.targets = map[netip.AddrPort]netip.AddrPort{}
	for _, f := range families {
		have, err := d.Rules.Read(ctx, f, Table)
		if err != nil {
			return w, err
		}
		want := render(f, all)
		maps.Copy(w.targets, udp(want))
		if ops := nft.Diff(have, want); len(ops) > 0 {
			w.ops, w.ports = append(w.ops, ops), append(w.ports, changed(have, want)...)
		}
	}
	return w, nil
}

// begin writes down the ports whose connections are about to be wrong.
func begin(store *ipam.Store, ports []netip.AddrPort) error {
	b, err := json.Marshal(ports)
	if err != nil {
		return err
	}
	return store.SetUnfinished(b)
}

// unfinished returns the ports that an earlier Sync left with wrong connections.
func unfinished(store *ipam.Store) (ports []netip.AddrPort, err error) {
	b, err := store.Unfinished()
	if err != nil || b == nil {
		return nil, err
	}
	if json.Unmarshal(b, &ports) != nil {
		return nil, nil // not this version's: what it says is lost, and the next change writes its own
	}
	return ports, nil
}

// Differ reports whether a Sync has something to do: the tables are other than the reservations say, or an earlier one was
// not finished.
func Differ(ctx context.Context, store *ipam.Store, all []ipam.Reservation, rules nft.Kernel) (bool, error) {
	if owed, err := unfinished(store); err != nil || len(owed) > 0 {
		return err == nil, err
	}
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
