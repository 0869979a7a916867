package podnet

import (
	"context"
	"errors"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
)

// step is one change. A failed one does not keep the others from being made.
type step func() error

// apply makes have into want: first what routes need, then routes, then what is no longer needed, and last the file that
// lets the CNI plugin begin.
func (h *Hop) apply(ctx context.Context, have live, want State) (changed int, findings []flow.Finding, err error) {
	findings, err = h.forward(want, have.Host.Routes)
	errs := []error{err}
	if want.Tunnel != nil && !sameTunnel(have.Tunnel, want.Tunnel) {
		errs = append(errs, h.doors.links.Put(*want.Tunnel))
		changed++
		if again, err := h.read(ctx); err == nil { // what hung on a device that was made anew is gone
			have = again
		}
	}
	near, gone := h.neighbourSteps(have.Neighbours, want.Neighbours)
	steps := slices.Concat(near, h.routeSteps(have.Routes, want.Routes), h.podSteps(ctx, have), gone, h.lastSteps(ctx, have, want))
	for _, s := range steps {
		err := s()
		if errors.Is(err, route.ErrTaken) { // another program was faster than this Apply; the next Plan says it
			findings = append(findings, finding(flow.RouteTaken, flow.Error, h.opt.Node, err.Error()))
			continue
		}
		errs = append(errs, err)
		changed++
	}
	return changed, findings, errors.Join(errs...)
}

// neighbourSteps are what routes need, and what no route needs any more.
func (h *Hop) neighbourSteps(have, want []route.Neighbour) (needed, unneeded []step) {
	put, gone := difference(have, want)
	for _, n := range put {
		needed = append(needed, func() error { return h.doors.neighbours.PutNeighbour(n) })
	}
	for _, n := range gone {
		if !replaced(n, want) {
			unneeded = append(unneeded, func() error { return h.doors.neighbours.DeleteNeighbour(n) })
		}
	}
	return needed, unneeded
}

// replaced reports whether an entry of want has n's key, so that putting it changed n.
func replaced(n route.Neighbour, want []route.Neighbour) bool {
	return slices.ContainsFunc(want, func(w route.Neighbour) bool {
		return w.FDB == n.FDB && (n.FDB && w.MAC == n.MAC || !n.FDB && w.Addr == n.Addr)
	})
}

func (h *Hop) routeSteps(have, want []route.Route) []step {
	put, gone := difference(have, want)
	var out []step
	for _, r := range put {
		out = append(out, func() error { return h.doors.routes.Put(r) })
	}
	for _, r := range gone {
		if !slices.ContainsFunc(want, func(w route.Route) bool { return w.Dst == r.Dst && w.Metric == r.Metric }) {
			out = append(out, func() error { return h.doors.routes.Delete(r) })
		}
	}
	return out
}

func (h *Hop) lastSteps(ctx context.Context, have live, want State) []step {
	var out []step
	if want.Tunnel == nil && have.Tunnel != nil {
		out = append(out, func() error { return h.doors.links.Delete(TunnelDevice) })
	}
	for i := range families {
		if ops := nft.Diff(have.Tables[i], want.Tables[i]); len(ops) > 0 {
			out = append(out, func() error {
				h.rules.Lock()
				defer h.rules.Unlock()
				return h.doors.rules.Apply(ctx, ops)
			})
		}
	}
	if !have.Config.equal(want.Config) {
		out = append(out, func() error { return want.Config.write(h.opt.ConfigPath) })
	}
	return out
}

// difference returns what want has and have has not, and the other way round.
func difference[T comparable](have, want []T) (put, gone []T) {
	in := func(list []T) map[T]bool {
		m := make(map[T]bool, len(list))
		for _, x := range list {
			m[x] = true
		}
		return m
	}
	h, w := in(have), in(want)
	for _, x := range want {
		if !h[x] {
			put = append(put, x)
		}
	}
	for _, x := range have {
		if !w[x] {
			gone = append(gone, x)
		}
	}
	return put, gone
}
