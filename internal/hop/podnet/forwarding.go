package podnet

import (
	"errors"
	"io/fs"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// forward switches the forwarding of packets on for the families of the Pods. Where the setting cannot be written and is
// off, that is a finding.
func (h *Hop) forward(want State, others []route.Route) ([]flow.Finding, error) {
	var findings []flow.Finding
	var errs []error
	h.cannotForward.Store(false)
	for _, is4 := range []bool{true, false} {
		if len(ofFamily(want.Config.PodCIDRs, is4)) == 0 {
			continue
		}
		switch err := allowForwarding(h.doors.sysctl, is4, others); {
		case errors.Is(err, sysctl.ErrReadOnly):
			h.cannotForward.Store(true)
			findings = append(findings, forwardingOff(h.opt.Node, forwardKey(is4), err))
		case err != nil:
			errs = append(errs, err)
		}
	}
	return findings, errors.Join(errs...)
}

func forwardKey(is4 bool) string {
	if is4 {
		return "net/ipv4/ip_forward"
	}
	return "net/ipv6/conf/all/forwarding"
}

// protocolRA is that of routes from router advertisements (RTPROT_RA).
const protocolRA = 9

// allowForwarding switches forwarding on. An IPv6 router does not listen to other routers unless it is told to: a node
// whose default route came from an advertisement would lose it when that one's lifetime ends.
func allowForwarding(s sysctl.Door, is4 bool, routes []route.Route) error {
	key := forwardKey(is4)
	if v, err := s.Get(key); err != nil || v == "1" {
		return err
	}
	for _, r := range routes {
		if is4 || r.Dst.Bits() != 0 || r.Proto != protocolRA {
			continue
		}
		ra := "net/ipv6/conf/" + r.Device + "/accept_ra"
		v, err := s.Get(ra)
		if err == nil && v == "1" {
			err = s.Set(ra, "2")
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return s.Set(key, "1")
}
