package zones

import (
	"context"
	"net/netip"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/config"
)

// Plain is a table of the cluster's names and, for all others, one upstream; nil = they are refused.
func Plain(view func() *answers.View, up Upstream) *Table {
	d := config.Defaults{Domain: view().Domain(), Reverse: Everywhere()}
	if up != nil {
		d.To = []config.Target{{File: "upstream"}}
	}
	z, err := New(config.Default(d), Options{View: view, Forward: func(*config.Block, *config.Forward) Upstream { return up }})
	if err != nil { // there is nothing in it that could fail
		panic(err)
	}
	return z.At(Socket{Port: config.Port})
}

// Everywhere are all addresses.
func Everywhere() []netip.Prefix {
	return []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
}

// Serve is Answer as a server's slow path calls it.
func (t *Table) Serve(ctx context.Context, q *dns.Msg, from netip.AddrPort, tcp bool) (*dns.Msg, answers.Zone) {
	return t.Answer(ctx, q, Client{Addr: from, TCP: tcp})
}
