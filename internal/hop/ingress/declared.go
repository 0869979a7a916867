package ingress

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// Declared implements hop.Hop: what the API says f.HTTP leads to.
func (h *Hop) Declared(s *model.Snapshot, f flow.Flow) flow.Verdict {
	return h.tableOf(s).Verdict(f)
}

// tableOf makes the table of a snapshot, from the one in use or the last one asked for when that saves work.
func (h *Hop) tableOf(s *model.Snapshot) *routes.Table {
	last := h.declared.Load()
	if last != nil && last.Snapshot() == s {
		return last
	}
	if d, _ := h.live(); d != nil {
		if t := d.Table(); t != nil {
			last = t
		}
	}
	switch {
	case last == nil:
		last = routes.Build(h.o.routes(), s)
	case last.Snapshot() != s:
		last = last.Update(s, model.Diff(last.Snapshot(), s))
	}
	h.declared.Store(last)
	return last
}

// dialTime is how long the proxy's own socket may take to accept.
const dialTime = 2 * time.Second

// Programmed implements hop.Hop: what the table being served says, whether its socket accepts, and which certificate it
// gives. Nothing is asked of an endpoint.
func (h *Hop) Programmed(ctx context.Context, f flow.Flow) (flow.Verdict, error) {
	if f.HTTP == nil {
		return flow.Verdict{Action: flow.Pass, Why: "no HTTP request"}, nil
	}
	d, err := h.live()
	if d == nil || d.Table() == nil {
		return down(fmt.Sprint(cmp.Or(err, errNoView))), nil
	}
	at, ok := h.address(d, f.HTTP.Scheme)
	if !ok {
		why := fmt.Sprintf("no address is served for %s", f.HTTP.Scheme)
		if err != nil {
			why = err.Error()
		}
		return down(why), nil
	}
	if err := h.dial(ctx, at); err != nil {
		return down(err.Error()), nil
	}
	v := d.Table().Verdict(f)
	if f.HTTP.Scheme == "https" {
		v.Why += h.served(d.Table(), f.HTTP.Host)
	}
	return v, nil
}

// address is one that is served for a scheme. Those of HTTP come first in Addrs.
func (h *Hop) address(d Driver, scheme string) (netip.AddrPort, bool) {
	addrs := d.Addrs()
	if scheme == "https" {
		addrs = addrs[min(len(h.o.HTTP), len(addrs)):]
	} else {
		addrs = addrs[:min(len(h.o.HTTP), len(addrs))]
	}
	if len(addrs) == 0 {
		return netip.AddrPort{}, false
	}
	return addrs[0], true
}

func (h *Hop) dial(ctx context.Context, at netip.AddrPort) error {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
	defer cancel()
	if at.Addr().IsUnspecified() {
		local := netip.AddrFrom4([4]byte{127, 0, 0, 1})
		if at.Addr().Is6() {
			local = netip.IPv6Loopback()
		}
		at = netip.AddrPortFrom(local, at.Port())
	}
	return h.o.In(func() error {
		c, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
		if err != nil {
			return err
		}
		return c.Close()
	})
}

// served says which certificate a client really gets, where that is not the one that the cluster asks for.
func (h *Hop) served(t *routes.Table, header string) string {
	host, ok := routes.Host(header)
	if !ok {
		return ""
	}
	c := h.store.For(host)
	if e := t.TLSFor(host); e != nil && c != e.Cert {
		if h.store.IsSelfSigned(c) {
			return "; the self-signed default certificate is served in its place"
		}
		return fmt.Sprintf("; the last good certificate is served in its place, from Secret %s, until %s", c.Secret, c.NotAfter().UTC().Format(time.DateOnly))
	}
	return ""
}

func down(why string) flow.Verdict {
	return flow.Verdict{Action: flow.Refused, Why: why, Findings: []flow.Finding{{
		Code: flow.IngressDown, Severity: flow.Error, Object: "the ingress proxy", Cause: "the ingress proxy does not accept connections.",
		Evidence: []string{"observed " + why}, Fix: "see its log; another program may have the port: ss -lntp 'sport = :80 or sport = :443'",
	}}}
}
