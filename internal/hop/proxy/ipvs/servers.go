package ipvs

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"time"

	kipvs "github.com/podway/podway/internal/kernel/ipvs"
)

// leaving are destinations that take no new connections (weight 0) and are deleted when they have none left.
type leaving map[kipvs.Key]map[netip.AddrPort]bool

func (l leaving) add(k kipvs.Key, to netip.AddrPort) {
	if l[k] == nil {
		l[k] = map[netip.AddrPort]bool{}
	}
	l[k][to] = true
}

func (l leaving) of(k kipvs.Key) []netip.AddrPort {
	return slices.SortedFunc(maps.Keys(l[k]), netip.AddrPort.Compare)
}

// server makes a virtual server as it is into what is wanted; either may be nil. have must tell the connections of its
// destinations.
func (w *work) server(have *kipvs.Server, want *virtual, l leaving) {
	switch {
	case want == nil:
		w.last = append(w.last, kipvs.Op{Kind: kipvs.DelServer, Server: have})
		return
	case have == nil:
		w.first = append(w.first, kipvs.Op{Kind: kipvs.AddServer, Server: &want.Server})
		have = &kipvs.Server{}
	case !have.SameServer(&want.Server):
		w.first = append(w.first, kipvs.Op{Kind: kipvs.SetServer, Server: &want.Server})
	}
	op := func(k kipvs.OpKind, to netip.AddrPort, weight uint32) {
		w.first = append(w.first, kipvs.Op{Kind: k, Server: &want.Server, To: to, Weight: weight})
	}
	for _, to := range want.Targets() {
		switch d, ok := have.Dests[to]; {
		case !ok:
			op(kipvs.AddDest, to, want.Dests[to].Weight)
		case d.Weight != want.Dests[to].Weight || d.Foreign:
			op(kipvs.SetDest, to, want.Dests[to].Weight)
		}
	}
	for _, to := range slices.SortedFunc(maps.Keys(have.Dests), netip.AddrPort.Compare) {
		if _, ok := want.Dests[to]; ok {
			continue
		}
		d := have.Dests[to]
		switch {
		case !want.keeps(to, d):
			op(kipvs.DelDest, to, 0)
		case d.Weight > 0 || d.Foreign:
			op(kipvs.SetDest, to, 0)
			l.add(want.Key, to)
		default:
			l.add(want.Key, to)
		}
	}
}

// keeps reports whether a destination that is wanted no more stays for the connections that it has. Of UDP only an
// endpoint that still serves keeps its clients: they would go on sending to one that is gone.
func (v *virtual) keeps(to netip.AddrPort, d kipvs.Dest) bool {
	if d.Active+d.Inactive == 0 {
		return false
	}
	if v.Proto != kipvs.UDP {
		return true
	}
	_, ok := slices.BinarySearchFunc(v.serving, to, netip.AddrPort.Compare)
	return ok
}

// releasePause is how often destinations that leave are looked at.
const releasePause = 5 * time.Second

// release deletes destinations whose last connection has ended.
func (b *Backend) release(ctx context.Context) error {
	if len(b.leaving) == 0 || time.Since(b.released) < releasePause {
		return nil
	}
	b.released = time.Now()
	for k, tos := range b.leaving {
		s, err := b.ipvs.Look(ctx, k)
		if err != nil {
			return err
		}
		var ops []kipvs.Op
		for to := range tos {
			if s == nil { // somebody deleted it, which the next comparison notices
				delete(tos, to)
				continue
			}
			d, ok := s.Dests[to]
			if ok && d.Weight == 0 && d.Active+d.Inactive == 0 {
				ops = append(ops, kipvs.Op{Kind: kipvs.DelDest, Server: s, To: to})
			}
			if !ok || len(ops) > 0 && ops[len(ops)-1].To == to {
				delete(tos, to)
			}
		}
		if len(tos) == 0 {
			delete(b.leaving, k)
		}
		if err := b.ipvs.Apply(ctx, ops); err != nil {
			return err
		}
	}
	return nil
}
