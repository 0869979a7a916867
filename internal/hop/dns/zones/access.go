package zones

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// permit is what becomes of a client's question.
func (b *block) permit(q *dns.Msg, c Client) config.Action {
	name, from := dns.CanonicalName(q.Question[0].Name), c.Addr.Addr().Unmap()
	for _, a := range b.c.ACL {
		if zones := a.Zones; len(zones) > 0 && !config.In(zones, name) {
			continue
		}
		for _, r := range a.Rules {
			if (len(r.Types) == 0 || slices.Contains(r.Types, q.Question[0].Qtype)) &&
				(len(r.From) == 0 || slices.ContainsFunc(r.From, func(p netip.Prefix) bool { return p.Contains(from) })) {
				if r.Action != config.Allow {
					return r.Action
				}
				break
			}
		}
	}
	return config.Allow
}

// log writes a question with its answer when a `log` wants it; a is nil when there was none.
func (b *block) log(q, a *dns.Msg, c Client, took time.Duration) {
	name := dns.CanonicalName(q.Question[0].Name)
	class, rcode, size := "error", "none", 0
	if a != nil {
		class, rcode, size = classOf(a), dns.RcodeToString[a.Rcode], a.Len()
	}
	for _, l := range b.c.Log {
		if len(l.Zones) > 0 && !config.In(l.Zones, name) {
			continue
		}
		wanted := len(l.Classes) == 0 || slices.Contains(l.Classes, "all") || slices.Contains(l.Classes, class)
		if !wanted && (l.MinDuration == 0 || took < l.MinDuration) {
			continue
		}
		proto := "udp"
		if c.TCP {
			proto = "tcp"
		}
		b.z.o.Log.Info("question", "hop", "dns", "client", c.Addr.String(), "id", q.Id, "name", q.Question[0].Name,
			"type", dns.Type(q.Question[0].Qtype).String(), "proto", proto, "rcode", rcode, "size", size, "took", took.Round(time.Microsecond))
		return
	}
}

// classOf is success, denial or error.
func classOf(a *dns.Msg) string {
	switch {
	case a.Rcode == dns.RcodeNameError, a.Rcode == dns.RcodeSuccess && len(a.Answer) == 0:
		return "denial"
	case a.Rcode == dns.RcodeSuccess:
		return "success"
	}
	return "error"
}

// touches reports whether any setting in front of the cluster's names may concern a name in zone.
func (b *block) touches(zone string) bool {
	overlaps := func(zones []string) bool {
		return slices.ContainsFunc(zones, func(z string) bool { return config.Overlap(z, zone) })
	}
	in := func(zones []string) bool { return len(zones) == 0 || overlaps(zones) }
	switch {
	case b.c.Minimal,
		slices.ContainsFunc(b.c.ACL, func(a config.ACL) bool { return in(a.Zones) }),
		slices.ContainsFunc(b.c.Log, func(l config.Log) bool { return in(l.Zones) }),
		slices.ContainsFunc(b.rewrites, func(r rewrite) bool { return r.touches(zone) }),
		slices.ContainsFunc(b.templates, func(t *template) bool { return overlaps(t.zones) }):
		return true
	}
	return b.hosts != nil && overlaps(b.hosts.zones) && b.hosts.touches(zone)
}

// touches reports whether a rule may be about a name in zone.
func (r *rewrite) touches(zone string) bool {
	switch {
	case r.c.Field == config.RewriteClass:
		return r.c.FromClass == dns.ClassINET // other classes are not answered where they are read
	case r.c.Field == config.RewriteType:
		return r.c.FromType != dns.TypeANY
	case r.c.Match == config.Exact:
		return config.Under(r.c.From, zone)
	case r.c.Match == config.Suffix:
		return strings.HasSuffix(r.c.From, zone) || strings.HasSuffix(zone, r.c.From)
	}
	return true
}

// touches reports whether a name in zone has an entry, or is denied because it has none.
func (h *hosts) touches(zone string) bool {
	if !h.c.Fall.On || len(h.c.Fall.Zones) > 0 && !slices.ContainsFunc(h.c.Fall.Zones, func(z string) bool { return config.Under(zone, z) }) {
		return true
	}
	t := h.now.Load()
	for name := range t.names {
		if config.Under(name, zone) {
			return true
		}
	}
	return config.Under(zone, "arpa.") && !h.c.NoReverse && len(t.addrs) > 0
}
