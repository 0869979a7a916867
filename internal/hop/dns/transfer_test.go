package dns

import (
	"net/netip"
	"testing"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/model"
)

func TestTheClustersZoneIsFetchedByThoseWhoAreNamed(t *testing.T) {
	everybody, other := netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("192.0.2.0/24")
	for name, c := range map[string]struct {
		transfers []config.Transfer
		may       bool
	}{
		"nobody is named":     {nil, false},
		"everybody is":        {[]config.Transfer{{To: []netip.Prefix{everybody}}}, true},
		"another is":          {[]config.Transfer{{To: []netip.Prefix{other}}}, false},
		"for this zone":       {[]config.Transfer{{Zones: []string{"cluster.local."}, To: []netip.Prefix{everybody}}}, true},
		"for another zone":    {[]config.Transfer{{Zones: []string{"example.com."}, To: []netip.Prefix{everybody}}}, false},
		"in the second place": {[]config.Transfer{{To: []netip.Prefix{other}}, {To: []netip.Prefix{everybody}}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			conf := config.Default(config.Defaults{Domain: "cluster.local.", TTL: 5})
			conf.Blocks[0].Transfers = c.transfers
			h := newHop(t, Options{Listen: loopback, Config: conf, NoUpstream: true})
			if _, err := h.Apply(t.Context(), shop(), model.Everything()); err != nil {
				t.Fatal(err)
			}
			in, err := new(dns.Transfer).In(new(dns.Msg).SetAxfr("cluster.local."), h.Addrs()[0].String())
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for m := range in {
				if (m.Error == nil) != c.may {
					t.Fatalf("error %v, may %v", m.Error, c.may)
				}
				n += len(m.RR)
			}
			if c.may && n < 5 {
				t.Errorf("only %d records", n)
			}
		})
	}
}
