package ipvs

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/proxy"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
)

// Can implements proxy.Limited.
func (b *Backend) Can(s *proxy.Settings) error {
	if !slices.Contains(kipvs.Schedulers, scheduler(&s.IPVS)) {
		return fmt.Errorf("ipvs: scheduler %q: %w: there are %s", s.IPVS.Scheduler, errors.ErrUnsupported, strings.Join(kipvs.Schedulers, ", "))
	}
	if t := timeouts(&s.IPVS); t.TCP < 0 || t.TCPFin < 0 || t.UDP < 0 {
		return fmt.Errorf("ipvs: timeouts %v, %v, %v: %w: none may be negative", t.TCP, t.TCPFin, t.UDP, errors.ErrUnsupported)
	}
	if s.NodePorts.Loopback {
		return fmt.Errorf("ipvs: node ports at 127.0.0.1 and ::1: %w: IPVS does not translate the loopback network; take localhost out of nodePortAddresses, or use mode iptables", errors.ErrUnsupported)
	}
	return nil
}

func scheduler(s *proxy.IPVSSettings) string {
	if s.Scheduler == "" {
		return "rr"
	}
	return s.Scheduler
}

func timeouts(s *proxy.IPVSSettings) kipvs.Timeouts {
	return kipvs.Timeouts{TCP: s.TCPTimeout, TCPFin: s.TCPFinTimeout, UDP: s.UDPTimeout}
}

// ranges are the excluded ranges of a family, sorted, without those within others.
func ranges(s *proxy.IPVSSettings, is4 bool) (out []netip.Prefix) {
	for _, p := range s.Exclude {
		if p.Addr().Is4() == is4 {
			out = append(out, p.Masked())
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	wide := out[:0]
	for _, p := range out {
		if n := len(wide); n == 0 || !wide[n-1].Overlaps(p) {
			wide = append(wide, p)
		}
	}
	return wide
}
