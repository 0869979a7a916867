package ipvs

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/podway/podway/internal/hop/proxy"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// counts returns what is shared by Services, without what is not.
func (x *parts) counts() *parts {
	return &parts{ipvs: x.ipvs, node: x.node, addrs: x.addrs, hairpin: x.hairpin, ports: x.ports}
}

// step changes what differs between two plans of the same node.
func (b *Backend) step(ctx context.Context, before, p *proxy.Plan) (proxy.Applied, error) {
	was, now := newParts(before), newParts(p)
	model.Changed(before.Services, p.Services, func(n model.Name) {
		was.add(before.Services.At(n))
		now.add(p.Services.At(n))
	})
	d := delta{total: b.total, was: was, now: now}
	for i, f := range families {
		if wanted(before, f, d.total.ports[i]) != wanted(p, f, d.ports(i)) {
			return b.full(ctx, p)
		}
	}
	w := newWork()
	for a := range both(was.addrs, now.addrs) {
		had := d.total.addrs[a]
		w.address(a, had > 0, had-was.addrs[a]+now.addrs[a] > 0)
	}
	for k := range both(was.servers, now.servers) {
		if err := b.follow(ctx, w, k, was.servers[k], now.servers[k]); err != nil {
			return proxy.Applied{}, err
		}
	}
	for i, f := range families {
		if wanted(p, f, d.ports(i)) {
			have, want := d.tables(i, f)
			w.table(have, want, false)
		}
	}
	done, err := b.commit(ctx, w, b.gen)
	if err != nil {
		return done, err
	}
	d.settle()
	b.applied = p
	return done, nil
}

func both[K comparable, V any](a, b map[K]V) map[K]bool {
	out := make(map[K]bool, len(a)+len(b))
	for k := range a {
		out[k] = true
	}
	for k := range b {
		out[k] = true
	}
	return out
}

// follow makes a virtual server from what it was into what it is now. Only if a destination leaves, or one is leaving, the
// kernel is asked for their connections.
func (b *Backend) follow(ctx context.Context, w *work, k kipvs.Key, was, now *virtual) error {
	var have *kipvs.Server
	if was != nil {
		have = &was.Server
	}
	if now == nil {
		delete(b.leaving, k)
	} else if was != nil && (len(b.leaving[k]) > 0 || loses(was, now)) {
		var err error
		if have, err = b.ipvs.Look(ctx, k); err != nil {
			return err
		}
		if have == nil {
			return fmt.Errorf("ipvs: virtual server %s is gone", k)
		}
		delete(b.leaving, k)
	}
	w.server(have, now, b.leaving)
	return nil
}

func loses(was, now *virtual) bool {
	for to := range was.Dests {
		if _, ok := now.Dests[to]; !ok {
			return true
		}
	}
	return false
}

// delta is the difference that some Services make to the tables. It is written down as two tables that hold only what the
// Services touch, so that one code (knft.Diff) orders the operations of full and partial changes.
type delta struct {
	total    *parts // counts of everything before
	was, now *parts // what the changed Services put in before and after
}

func (d *delta) ports(fam int) int {
	return d.total.ports[fam] - d.was.ports[fam] + d.now.ports[fam]
}

// tables returns what the Services touch of a family's table, before and after. The totals must not have been settled yet.
func (d *delta) tables(fam int, f knft.Family) (have, want *knft.Table) {
	have, want = newTable(f), newTable(f)
	for name, elems := range d.was.sets[fam] {
		have.Sets[name].Elems = elems
	}
	for name, elems := range d.now.sets[fam] {
		want.Sets[name].Elems = elems
	}
	shared := func(set string, key func(netip.Addr) string, total, was, now map[netip.Addr]int) {
		for a := range both(was, now) {
			if a.Is4() != (f == knft.IPv4) {
				continue
			}
			before := total[a]
			after := before - was[a] + now[a]
			if before > 0 && after == 0 {
				have.Sets[set].Elems[key(a)] = ""
			}
			if before == 0 && after > 0 {
				want.Sets[set].Elems[key(a)] = ""
			}
		}
	}
	shared(setIPs, addrKey, d.total.addrs, d.was.addrs, d.now.addrs)
	shared(setLoopback, pair, d.total.hairpin, d.was.hairpin, d.now.hairpin)
	return have, want
}

// settle brings the totals up to date.
func (d *delta) settle() {
	for i := range families {
		d.total.ports[i] = d.ports(i)
	}
	move(d.total.addrs, d.was.addrs, d.now.addrs)
	move(d.total.hairpin, d.was.hairpin, d.now.hairpin)
}

func move(total, was, now map[netip.Addr]int) {
	for a, n := range was {
		total[a] -= n
	}
	for a, n := range now {
		total[a] += n
	}
	for a := range was {
		if total[a] == 0 {
			delete(total, a)
		}
	}
}
