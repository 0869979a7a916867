package dns

import (
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/upstream"
	"github.com/podway/podway/internal/hop/dns/zones"
)

// serving is a configuration at work.
type serving struct {
	conf       *config.Config
	answers    answers.Options
	zones      *zones.Zones
	first      *zones.Table                   // of the address at which Pods ask
	forwarders map[string]*upstream.Forwarder // by what they are told: one that is told the same stays, with what it has kept
}

// builtIn is the configuration that the options stand for.
func (o Options) builtIn() *config.Config {
	d := config.Defaults{Domain: o.Domain, TTL: o.TTL, Reverse: zones.Everywhere(), Stale: time.Hour}
	if d.Domain == "" {
		d.Domain = "cluster.local"
	}
	d.Domain = dns.CanonicalName(d.Domain)
	if o.PodRecords {
		d.Pods = config.PodsInsecure
		if o.PodsChecked {
			d.Pods = config.PodsVerified
		}
	}
	for _, a := range o.Upstreams {
		d.To = append(d.To, config.Target{Addr: a})
	}
	if len(d.To) == 0 && !o.NoUpstream {
		d.To = []config.Target{{File: o.resolvConf()}}
	}
	return config.Default(d)
}

func (o Options) resolvConf() string {
	if o.ResolvConf == "" {
		return "/etc/resolv.conf"
	}
	return o.ResolvConf
}

// answersOf says how the cluster's names are answered by a configuration. Reverse zones that do not fall through are the
// cluster's as a whole.
func (o Options) answersOf(c *config.Config) answers.Options {
	out := answers.Options{Domain: o.Domain, CIDRs: slices.Clone(o.CIDRs), TTL: o.TTL, Nameservers: o.Nameservers}
	for _, b := range c.Blocks {
		k := b.Cluster
		if k == nil {
			continue
		}
		out.Domain, out.TTL, out.PodRecords = k.Domain, k.TTL, k.Pods != config.PodsDisabled
		out.Namespaces, out.NoEndpoints, out.PodNames = k.Namespaces, k.NoEndpoints, k.EndpointPodNames
		out.PodsChecked = k.Pods == config.PodsVerified
		for _, p := range k.Reverse {
			name, err := dns.ReverseAddr(p.Addr().String())
			if err == nil && !k.Fall.Through(name) && !slices.Contains(out.CIDRs, p) {
				out.CIDRs = append(out.CIDRs, p)
			}
		}
	}
	return out
}

// prepare makes a configuration ready to serve, with the forwarders of the one before where they are told the same.
func (h *Hop) prepare(c *config.Config, before *serving) (*serving, error) {
	s := &serving{conf: c, answers: h.o.answersOf(c), forwarders: map[string]*upstream.Forwarder{}}
	var failed error
	forward := func(b *config.Block, f *config.Forward) zones.Upstream {
		told := told(b, f)
		if s.forwarders[told] == nil && before != nil && before.forwarders[told] != nil {
			s.forwarders[told] = before.forwarders[told]
		}
		if s.forwarders[told] == nil && !h.o.NoUpstream {
			made, err := h.forwarder(c, b, f)
			if failed = errors.Join(failed, err); err == nil {
				s.forwarders[told] = made
			}
		}
		if s.forwarders[told] == nil {
			return nobody{}
		}
		return s.forwarders[told]
	}
	var err error
	s.zones, err = zones.New(c, zones.Options{View: func() *answers.View { return h.live.Load().view }, Forward: forward})
	if err = errors.Join(err, failed); err != nil {
		return nil, fmt.Errorf("dns: %w", err)
	}
	if s.first = s.zones.At(zones.Socket{Port: config.Port}); s.first == nil {
		for _, at := range s.zones.Sockets() {
			s.first = s.zones.At(at)
			break
		}
	}
	if s.first == nil {
		return nil, fmt.Errorf("dns: the configuration has no server block")
	}
	return s, nil
}

// told is all that a forwarder depends on.
func told(b *config.Block, f *config.Forward) string {
	g := *f
	g.At = config.Position{}
	if b.Cache == nil {
		return fmt.Sprintf("%v %+v", b.Zones(), g)
	}
	k := *b.Cache
	k.At = config.Position{}
	return fmt.Sprintf("%v %+v %+v", b.Zones(), g, k)
}

// adopt puts a configuration into service: questions meet the old one or the new one, and sockets stay.
func (h *Hop) adopt(c *config.Config) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	old := h.serving.Load()
	s, err := h.prepare(c, old)
	if err != nil {
		return err
	}
	now := h.live.Load()
	if !reflect.DeepEqual(s.answers, old.answers) {
		view, err := answers.New(s.answers)
		if err != nil {
			return err
		}
		if now.from != nil {
			view, _ = view.Apply(now.from, everything)
		}
		h.live.Store(&live{view, now.from})
	}
	h.serving.Store(s)
	h.arrange(s)
	for told, f := range old.forwarders {
		if s.forwarders[told] == nil {
			f.Retire()
		}
	}
	return nil
}

// own are the addresses behind which we stand: never asked.
func (o Options) own(c *config.Config) []netip.AddrPort {
	own := slices.Clone(o.Listen)
	if o.AsConfigured {
		for _, at := range zones.Sockets(c) {
			own = append(own, o.listens(at)...)
		}
	}
	for _, a := range o.Nameservers {
		own = append(own, netip.AddrPortFrom(a, config.Port))
	}
	return own
}
