package dns

import (
	"iter"
	"net/netip"
	"slices"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// transfer grants the cluster's zone to those whom the configuration lets fetch it: nobody, unless it says so. Before the
// first complete view there is none.
func (h *Hop) transfer(zone string, from netip.AddrPort) (dns.RR, iter.Seq[dns.RR], bool) {
	view := h.live.Load().view
	if !view.Synced() || zone != view.Domain() || !mayFetch(h.serving.Load().conf, zone, from.Addr().Unmap()) {
		return nil, nil, false
	}
	return view.SOA(), view.Records(), true
}

// mayFetch reports whether a block that serves the cluster's names lets an address fetch a zone.
func mayFetch(c *config.Config, zone string, from netip.Addr) bool {
	for _, b := range c.Blocks {
		if b.Cluster == nil || b.Cluster.Domain != zone {
			continue
		}
		for _, t := range b.Transfers {
			zones := t.Zones
			if len(zones) == 0 {
				zones = b.Zones()
			}
			if slices.ContainsFunc(zones, func(z string) bool { return dns.IsSubDomain(z, zone) }) &&
				slices.ContainsFunc(t.To, func(p netip.Prefix) bool { return p.Contains(from) }) {
				return true
			}
		}
	}
	return false
}
