package zones

import (
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/corefile"
)

// read is what a server does with a datagram before the slow path: "view", "cached ADDRESS" or "slow".
func read(t testing.TB, tb *Table, name string, typ uint16) string {
	t.Helper()
	msg, err := new(dns.Msg).SetQuestion(dns.Fqdn(name), typ).Pack()
	if err != nil {
		t.Fatal(err)
	}
	var q answers.Query
	_, r := tb.View().Answer(&q, nil, msg, false, 0)
	switch r.Kind {
	case answers.Answered:
		return "view"
	case answers.Foreign:
		if out, _, ok := tb.Cached(q.Asked(false), nil, msg, 0, time.Now()); ok {
			return "cached " + string(out)
		}
	}
	return "slow"
}

const cluster = " kubernetes cluster.local in-addr.arpa ip6.arpa {\n  fallthrough in-addr.arpa ip6.arpa\n }\n forward . 192.0.2.1\n"

func TestWhatNoSettingCanChangeIsAnsweredWhereItWasRead(t *testing.T) {
	const service, back, away = "cart.shop.svc.cluster.local", "7.0.96.10.in-addr.arpa", "www.example.com"
	for _, c := range []struct{ sentence, text, service, back, away string }{
		{"kubeadm's Corefile with an address", ". {\n errors\n loop\n" + cluster + "}", "view", "view", "cached 192.0.2.1"},
		{"a stub domain", ". {\n" + cluster + "}\ncorp.example {\n forward . 192.0.2.2\n}", "view", "view", "cached 192.0.2.1"},
		{"the world is a stub domain", ". {\n" + cluster + "}\nexample.com {\n forward . 192.0.2.2\n}", "view", "view", "cached 192.0.2.2"},
		{"a rewritten name of the world", ". {\n rewrite name www.example.com cart.shop.svc.cluster.local\n" + cluster + "}", "view", "view", "slow"},
		{"another rewritten name of the world", ". {\n rewrite name a.example.com cart.shop.svc.cluster.local\n" + cluster + "}", "view", "view", "cached 192.0.2.1"},
		{"a rewritten name of the cluster", ". {\n rewrite name cart.shop.svc.cluster.local pay.shop.svc.cluster.local\n" + cluster + "}", "slow", "slow", "cached 192.0.2.1"},
		{"a rewritten suffix", ". {\n rewrite name suffix .example.com .cluster.local\n" + cluster + "}", "view", "view", "slow"},
		{"a rewritten suffix of the cluster's", ". {\n rewrite name suffix .local .example\n" + cluster + "}", "slow", "slow", "slow"},
		{"an expression may be about any name", ". {\n rewrite name regex a b\n" + cluster + "}", "slow", "slow", "slow"},
		{"hosts that fall through", ". {\n hosts none {\n  10.0.0.1 a.example\n  no_reverse\n  fallthrough\n }\n" + cluster + "}", "view", "view", "cached 192.0.2.1"},
		{"hosts with reverse names", ". {\n hosts none {\n  10.0.0.1 www.example.com\n  fallthrough\n }\n" + cluster + "}", "view", "slow", "slow"},
		{"hosts with a name of the cluster", ". {\n hosts none {\n  10.0.0.1 cart.shop.svc.cluster.local\n  no_reverse\n  fallthrough\n }\n" + cluster + "}", "slow", "slow", "cached 192.0.2.1"},
		{"hosts that do not fall through", ". {\n hosts none {\n  10.0.0.1 a.example\n }\n" + cluster + "}", "slow", "slow", "slow"},
		{"a template for one domain", ". {\n template IN A example.com {\n  answer \"x. A 10.0.0.1\"\n }\n" + cluster + "}", "view", "view", "slow"},
		{"a template for all", ". {\n template IN A {\n  fallthrough\n }\n" + cluster + "}", "slow", "slow", "slow"},
		{"a log of all", ". {\n log\n" + cluster + "}", "slow", "slow", "slow"},
		{"a log of one domain", ". {\n log a.example\n" + cluster + "}", "view", "view", "slow"},
		{"an access list", ". {\n acl {\n  block net 192.0.2.1\n }\n" + cluster + "}", "slow", "slow", "slow"},
		{"another block has a part of the cluster's domain", ". {\n" + cluster + "}\nsvc.cluster.local {\n forward . 192.0.2.2\n}", "cached 192.0.2.2", "slow", "cached 192.0.2.1"},
		{"another block has a part of the reverse names", ". {\n" + cluster + "}\n96.10.in-addr.arpa {\n forward . 192.0.2.2\n}", "view", "cached 192.0.2.2", "cached 192.0.2.1"},
		{"the cluster has a block of its own", "cluster.local in-addr.arpa ip6.arpa {\n" + cluster + "}\n. {\n forward . 192.0.2.3\n}", "view", "view", "cached 192.0.2.3"},
		{"the cluster's block has no reverse names", "cluster.local {\n" + cluster + "}\n. {\n forward . 192.0.2.3\n}", "view", "cached 192.0.2.3", "cached 192.0.2.3"},
		{"no cluster at all", ". {\n forward . 192.0.2.1\n}", "cached 192.0.2.1", "cached 192.0.2.1", "cached 192.0.2.1"},
		{"an exception of the forward", ". {\n kubernetes cluster.local in-addr.arpa ip6.arpa\n forward . 192.0.2.1 {\n  except example.com\n }\n}", "view", "view", "slow"},
		{"another port with a log", ". {\n" + cluster + "}\n.:54 {\n log\n}", "view", "view", "cached 192.0.2.1"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			tb := table(t, c.text)
			for i, want := range []string{c.service, c.back, c.away} {
				name, typ := []string{service, back, away}[i], []uint16{dns.TypeA, dns.TypePTR, dns.TypeA}[i]
				if got := read(t, tb, name, typ); got != want {
					t.Errorf("%s: %s, want %s", name, got, want)
				}
			}
		})
	}
}

func TestTheFastPathCostsNothing(t *testing.T) {
	for _, text := range []string{corefile.Kubeadm, many, "cluster.local {\n kubernetes\n}\n.:53 {\n hosts none {\n  10.0.0.1 a.b\n  fallthrough\n }\n forward . 192.0.2.1 {\n  except a.c\n }\n}"} {
		tb := table(t, text)
		msg, err := new(dns.Msg).SetQuestion("www.deep.in.example.net.", dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		var q answers.Query
		out := make([]byte, 0, 512)
		if n := testing.AllocsPerRun(100, func() {
			tb.View().Answer(&q, out, msg, false, 0)
			tb.Cached(q.Asked(false), out, msg, 0, time.Time{})
		}); n != 0 {
			t.Errorf("%v allocations with\n%s", n, text)
		}
	}
}

func BenchmarkCachedByTheLongestZone(b *testing.B) {
	tb := table(b, ". {\n"+cluster+"}\ncorp.example {\n forward . 192.0.2.2\n}")
	msg, err := new(dns.Msg).SetQuestion("www.example.com.", dns.TypeA).Pack()
	if err != nil {
		b.Fatal(err)
	}
	var q answers.Query
	tb.View().Answer(&q, nil, msg, false, 0)
	out, a := make([]byte, 0, 512), q.Asked(false)
	b.ReportAllocs()
	for b.Loop() {
		tb.Cached(a, out, msg, 0, time.Time{})
	}
}
