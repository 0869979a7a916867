package ebpf

import (
	"context"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/bpf"
	"github.com/podway/podway/internal/model"
)

// closeStale ends the UDP sockets that are connected to an endpoint which no longer serves: nothing else would tell their
// owner, who hears nothing any more. TCP connections end by themselves. before is nil when it is not known what was
// served: then all are looked at, and still only stale ones end.
func (b *Backend) closeStale(ctx context.Context, k bpf.Kernel, before, p *proxy.Plan) error {
	if b.host.Close == nil {
		return nil
	}
	serving := map[front][]netip.AddrPort{}
	if before == nil {
		for s := range p.Services.Values() {
			serve(s, serving)
		}
	} else if !fewer(before, p, serving) {
		return nil
	}
	all, err := k.Dump(ctx, connections)
	if err != nil {
		return err
	}
	sockets := map[uint64][]uint64{}
	gone := bpf.Op{Map: connections}
	for key, value := range all {
		c := connectionOf(value)
		c.list.list = clusterList
		left, known := serving[c.list]
		if before != nil && !known || slices.Contains(left, c.endpoint) {
			continue
		}
		sockets[c.netns] = append(sockets[c.netns], cookieOf(key))
		gone.Dels = append(gone.Dels, key)
	}
	if len(sockets) == 0 {
		return nil
	}
	if _, err := b.host.Close(ctx, sockets); err != nil {
		return err
	}
	return k.Apply(ctx, []bpf.Op{gone})
}

// serve adds what serves at the UDP ports of a Service.
func serve(s *proxy.Service, into map[front][]netip.AddrPort) {
	if s == nil {
		return
	}
	for _, p := range s.Ports {
		if p.Proto == flow.UDP {
			into[front{p.ClusterIP, p.Proto, clusterList}] = p.Serving
		}
	}
}

// fewer collects the UDP ports at which an endpoint no longer serves, with those that still do.
func fewer(before, p *proxy.Plan, into map[front][]netip.AddrPort) bool {
	was, now := map[front][]netip.AddrPort{}, map[front][]netip.AddrPort{}
	model.Changed(before.Services, p.Services, func(n model.Name) {
		serve(before.Services.At(n), was)
		serve(p.Services.At(n), now)
	})
	for port, old := range was {
		left := now[port]
		if slices.ContainsFunc(old, func(a netip.AddrPort) bool { return !slices.Contains(left, a) }) {
			into[port] = left
		}
	}
	return len(into) > 0
}
