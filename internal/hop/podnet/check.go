package podnet

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/podway/podway/internal/kernel/link"
)

// seen is what Check saw when all was well, to find out cheaply that it still is.
type seen struct {
	last       *applied
	generation uint32 // of the nftables rules of all programs
	config     os.FileInfo
	checks     int // since the state was read as a whole
}

// wholeEvery is how many cheap checks there are to one that reads everything.
const wholeEvery = 60

// Check says what somebody else changed since the last Apply: of podway's own, or of the devices and routes from which
// the plan follows; "" when nothing. As long as the kernel tells of no change it reads next to nothing.
func (h *Hop) Check(ctx context.Context) (drift string, err error) {
	drift, err = h.check(ctx)
	if drift != "" {
		h.opt.Metrics.drifted()
	}
	return drift, err
}

func (h *Hop) check(ctx context.Context) (drift string, err error) {
	last := h.last.Load()
	if last == nil {
		return "", nil
	}
	if drift := h.forwardingDrift(last.want); drift != "" {
		return drift, nil
	}
	now, quiet := h.look(ctx, last)
	if quiet {
		h.seen.checks++
		return "", nil
	}
	h.seen = seen{}
	drift, err = h.compare(ctx, last)
	if err == nil && drift == "" {
		now.last = h.last.Load()
		h.seen = now
	}
	return drift, err
}

// look asks what is cheap to ask, and whether it is as it was when all was well. It comes before the state is read, so
// that a change during the reading is seen next time.
func (h *Hop) look(ctx context.Context, last *applied) (now seen, quiet bool) {
	if h.doors.changed == nil {
		return now, false
	}
	changed, err := h.doors.changed()
	if err != nil {
		return now, false
	}
	h.rules.Lock()
	now.generation, err = h.doors.rules.Generation(ctx)
	h.rules.Unlock()
	if err != nil {
		return now, false
	}
	if now.config, err = os.Stat(h.opt.ConfigPath); err != nil {
		return now, false
	}
	was := h.seen
	return now, !changed && was.last == last && was.generation == now.generation && was.checks < wholeEvery &&
		os.SameFile(was.config, now.config) && was.config.ModTime().Equal(now.config.ModTime())
}

// compare reads everything.
func (h *Hop) compare(ctx context.Context, last *applied) (drift string, err error) {
	have, err := h.read(ctx)
	if err != nil {
		return "", err
	}
	if !last.host.equal(have.Host) {
		want, _ := Plan(last.snapshot, h.opt, have.Host)
		if !want.Equal(last.want) {
			return "the node's addresses, devices or routes are others", nil
		}
		last = &applied{snapshot: last.snapshot, host: have.Host, want: want}
		h.last.Store(last)
	}
	if !have.State.Equal(last.want) {
		return firstDifference(last.want.Text(), have.State.Text()), nil
	}
	if reserved, err := h.store.List(); err == nil {
		h.opt.Metrics.reserved(last.want, reserved)
		if gone := lost(have, reserved); len(gone) > 0 {
			return "missing: " + gone[0].String(), nil
		}
		if differ, err := h.hostPortsDiffer(ctx, reserved); err != nil || differ {
			return "other hostPorts than the Pods have", err
		}
	}
	return "", nil
}

// forwardingDrift names a setting that is off although it could be on when it was applied last, or says that somebody
// has mended what podway cannot: the finding must go.
func (h *Hop) forwardingDrift(want State) string {
	stuck, off := h.cannotForward.Load(), ""
	for _, c := range want.Config.PodCIDRs {
		key := forwardKey(c.Addr().Is4())
		v, err := h.doors.sysctl.Get(key)
		if err != nil {
			return ""
		}
		if v == "0" {
			off = key + " is 0"
		}
	}
	switch {
	case stuck && off == "":
		return "forwarding is on again"
	case stuck:
		return ""
	}
	return off
}

// firstDifference is the first line that only one of two texts has.
func firstDifference(want, have string) string {
	w, g := strings.Split(want, "\n"), strings.Split(have, "\n")
	for _, l := range w {
		if !slices.Contains(g, l) {
			return "missing: " + strings.TrimSpace(l)
		}
	}
	for _, l := range g {
		if !slices.Contains(w, l) {
			return "too many: " + strings.TrimSpace(l)
		}
	}
	return "another order"
}

// equal reports whether the plan must be the same.
func (h Host) equal(o Host) bool {
	return slices.EqualFunc(h.Links, o.Links, link.Link.Equal) && slices.Equal(h.Routes, o.Routes)
}
