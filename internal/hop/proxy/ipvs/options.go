package ipvs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	kipvs "github.com/podway/podway/internal/kernel/ipvs"
)

// Options are the settings of mode ipvs in KubeProxyConfiguration; the zero value is the default.
type Options struct {
	// Scheduler is how IPVS chooses an endpoint: rr wrr lc wlc lblc lblcr sh dh sed nq mh; "" = rr.
	Scheduler string
	// ExcludeCIDRs are addresses whose virtual servers are never deleted, though they are at addresses of ours.
	ExcludeCIDRs []netip.Prefix
	// LaxARP lets the node answer ARP for the addresses of Services (strictARP: false). Beside a program that announces
	// addresses with ARP, as podway itself does, every node would then answer for them.
	LaxARP bool
	// Timeouts are how long idle connections are remembered.
	Timeouts kipvs.Timeouts
}

// Check says what is wrong with the options, in words for users.
func (o *Options) Check() error {
	if o.Scheduler != "" && !slices.Contains(kipvs.Schedulers, o.Scheduler) {
		return fmt.Errorf("ipvs: no scheduler %q; there are %s", o.Scheduler, strings.Join(kipvs.Schedulers, ", "))
	}
	if t := o.Timeouts; t.TCP < 0 || t.TCPFin < 0 || t.UDP < 0 {
		return fmt.Errorf("ipvs: timeouts %v, %v, %v: none may be negative", t.TCP, t.TCPFin, t.UDP)
	}
	return nil
}

func (o *Options) scheduler(maglev bool) string {
	switch {
	case maglev:
		return "mh"
	case o.Scheduler == "":
		return "rr"
	}
	return o.Scheduler
}

func (o *Options) excluded(a netip.Addr) bool {
	return slices.ContainsFunc(o.ExcludeCIDRs, func(p netip.Prefix) bool { return p.Contains(a) })
}
