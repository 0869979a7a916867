package podnet

import (
	"context"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/hop/podnet/hostport"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/route"
)

// What the CNI plugin made for this node's Pods and somebody deleted is put back; it goes only with the Pod.

// lost returns the routes to this node's Pods that are missing although the Pod's link is complete.
func lost(l live, reserved []ipam.Reservation) []route.Route {
	var out []route.Route
	for _, r := range reserved {
		if l.Veths[r.Veth].Alias == "" { // not there, or the plugin is at work
			continue
		}
		for _, a := range r.Addrs {
			want := route.Route{Dst: single(a), Device: r.Veth, Proto: RouteProtocol}
			if !slices.Contains(l.Pods, want) {
				out = append(out, want)
			}
		}
	}
	return out
}

// podSteps put back routes and hostPorts.
func (h *Hop) podSteps(ctx context.Context, have live) []step {
	reserved, err := h.store.List()
	if err != nil {
		return []step{func() error { return err }}
	}
	var out []step
	for _, r := range lost(have, reserved) {
		out = append(out, func() error {
			err := h.doors.routes.Put(r)
			if _, there, lerr := h.doors.links.Get(r.Device); lerr == nil && !there {
				return nil // the Pod went in the meantime
			}
			return err
		})
	}
	switch differ, err := h.hostPortsDiffer(ctx, reserved); {
	case err != nil:
		out = append(out, func() error { return err })
	case differ:
		out = append(out, func() error { return h.syncHostPorts(ctx, have) })
	}
	return out
}

func (h *Hop) hostPortsDiffer(ctx context.Context, reserved []ipam.Reservation) (bool, error) {
	h.rules.Lock()
	defer h.rules.Unlock()
	return hostport.Differ(ctx, h.store, reserved, h.doors.rules)
}

func (h *Hop) syncHostPorts(ctx context.Context, have live) error {
	h.rules.Lock()
	defer h.rules.Unlock()
	_, err := hostport.Sync(ctx, h.store, hostport.Doors{
		Rules: h.doors.rules, Flows: h.doors.flows,
		Local: func() (out []netip.Addr, _ error) {
			for _, l := range have.Host.Links {
				for _, p := range l.Addrs {
					out = append(out, p.Addr())
				}
			}
			return out, nil
		},
	})
	return err
}
