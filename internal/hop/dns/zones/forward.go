package zones

import (
	"context"
	"slices"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// patience is how long another server's answer is waited for; a stub resolver gives up after 5 seconds.
const patience = 5 * time.Second

// forwarder is one `forward`.
type forwarder struct {
	c  *config.Forward
	up Upstream
}

// mayAsk reports whether a forward is for a name. Names of the cluster's domain are sent only where the configuration says
// so expressly: not with all others.
func (b *block) mayAsk(f *forwarder, name string) bool {
	if !config.Under(name, f.c.Zone) || config.In(f.c.Except, name) {
		return false
	}
	c := b.c.Cluster
	return c == nil || !config.Under(name, c.Domain) || config.Under(f.c.Zone, c.Domain)
}

// fromServers asks the first forward whose zone holds the name, and the next when the answer says so.
func (b *block) fromServers(w *walk, q *dns.Msg, name string) result {
	out := refuse(q, dns.RcodeRefused)
	out.foreign = w.offline && len(b.forwards) == 0
	for _, f := range b.forwards {
		if !b.mayAsk(f, name) {
			continue
		}
		if w.offline {
			return result{foreign: true}
		}
		out = f.ask(w, q)
		if out.msg == nil || !slices.Contains(f.c.Next, out.msg.Rcode) {
			return out
		}
	}
	return out
}

// probed reports whether a question is a probe for loops that came back, whoever sent it.
func (z *Zones) probed(name string) bool {
	return slices.ContainsFunc(z.blocks, func(b *block) bool {
		return slices.ContainsFunc(b.forwards, func(f *forwarder) bool { return f.up.Probed(name) })
	})
}

func (f *forwarder) ask(w *walk, q *dns.Msg) result {
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	up, err := f.up.Exchange(ctx, q)
	if err != nil {
		return refuse(q, dns.RcodeServerFailure)
	}
	a := reply(q, up.Rcode)
	a.Truncated = up.Truncated
	a.Answer, a.Ns, a.Extra = up.Answer, up.Ns, withoutOPT(up.Extra)
	if opt := q.IsEdns0(); q.AuthenticatedData || opt != nil && opt.Do() {
		a.AuthenticatedData = up.AuthenticatedData
	}
	return answered(a)
}

func withoutOPT(in []dns.RR) []dns.RR {
	var out []dns.RR
	for _, rr := range in {
		if rr.Header().Rrtype != dns.TypeOPT {
			out = append(out, rr)
		}
	}
	return out
}
