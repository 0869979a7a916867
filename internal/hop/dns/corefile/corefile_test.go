package corefile

import (
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// same compares settings without their places.
var same = cmp.Options{cmpopts.IgnoreTypes(config.Position{}), cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{}, netip.Prefix{}), cmpopts.EquateEmpty()}

func read(t *testing.T, text string) *config.Config {
	t.Helper()
	c, err := Parse("Corefile", []byte(text), Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func addrPort(s string) netip.AddrPort { return netip.MustParseAddrPort(s) }

func TestTheCorefileOfKubeadmMeansWhatItSays(t *testing.T) {
	got := read(t, Kubeadm)
	cache := config.DefaultCache()
	cache.Success.Max, cache.Denial.Max = 30*time.Second, 30*time.Second
	cache.Success.Off, cache.Denial.Off = []string{"cluster.local."}, []string{"cluster.local."}
	want := &config.Config{Health: []string{":8080"}, Lameduck: 5 * time.Second, Ready: []string{":8181"}, Metrics: []string{":9153"},
		Blocks: []*config.Block{{Keys: []config.Key{{Zone: ".", Port: 53}}, Cache: cache,
			Cluster: &config.Cluster{Domain: "cluster.local.", Pods: config.PodsInsecure, TTL: 30,
				Reverse: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0")},
				Fall:    config.Fall{On: true, Zones: []string{"in-addr.arpa.", "ip6.arpa."}}},
			Forwards: []config.Forward{{Plugin: "forward", Zone: ".", To: []config.Target{{File: "/etc/resolv.conf"}}, MaxConcurrent: 1000, MaxFails: 2}}}}}
	notes := got.Notes
	got.Notes = nil
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Errorf("%s", diff)
	}
	var plugins []string
	for _, n := range notes {
		plugins = append(plugins, n.Plugin)
	}
	if s := strings.Join(plugins, " "); s != "errors loop reload loadbalance" {
		t.Errorf("noted: %s", s)
	}
	if s := notes[1].String(); !strings.HasPrefix(s, "Corefile:20: loop: ") {
		t.Errorf("a note says where: %s", s)
	}
}

func TestStubDomainsAndServersWithTLS(t *testing.T) {
	got := read(t, `
consul.local:53 {
    errors
    cache 30
    forward . 10.150.0.1 [fd00::53]:5353
}
. {
    forward corp.example tls://10.0.0.1 tls://9.9.9.9%dns.quad9.net:8853 {
        except a.corp.example b.corp.example
        policy sequential
        health_check 5s no_rec domain corp.example
        prefer_udp
        max_fails 3
        expire 20s
        failover SERVFAIL
        next NXDOMAIN
    }
    forward . /etc/resolv.conf
}`)
	if len(got.Blocks) != 2 || got.Blocks[0].Keys[0] != (config.Key{Zone: "consul.local.", Port: 53}) {
		t.Fatalf("%+v", got.Blocks)
	}
	want := []config.Forward{{Plugin: "forward", Zone: ".", MaxFails: 2, To: []config.Target{{Addr: addrPort("10.150.0.1:53")}, {Addr: addrPort("[fd00::53]:5353")}}}}
	if diff := cmp.Diff(want, got.Blocks[0].Forwards, same); diff != "" {
		t.Error(diff)
	}
	want = []config.Forward{{Plugin: "forward", Zone: "corp.example.", Except: []string{"a.corp.example.", "b.corp.example."}, Policy: config.Sequential,
		To:          []config.Target{{Addr: addrPort("10.0.0.1:853"), TLS: true}, {Addr: addrPort("9.9.9.9:8853"), TLS: true, ServerName: "dns.quad9.net"}},
		HealthCheck: config.HealthCheck{Every: 5 * time.Second, NoRecursion: true, Name: "corp.example."}, PreferUDP: true, MaxFails: 3,
		Expire: 20 * time.Second, Failover: []int{dns.RcodeServerFailure}, Next: []int{dns.RcodeNameError}},
		{Plugin: "forward", Zone: ".", MaxFails: 2, To: []config.Target{{File: "/etc/resolv.conf"}}}}
	if diff := cmp.Diff(want, got.Blocks[1].Forwards, same); diff != "" {
		t.Error(diff)
	}
}

func TestEverythingThatABlockMayHave(t *testing.T) {
	got := read(t, `
(common) {
    log . {
        class denial error
    }
    any
}
dns://example.org:1053, example.net 10.0.0.0/9 {
    import common
    bind 127.0.0.1 ::1
    root /zones
    minimal
    acl example.org {
        allow net 10.0.0.0/8
        block type A AAAA net 192.0.2.1
        block
    }
    rewrite name shop.example.org cart.shop.svc.cluster.local
    rewrite continue name suffix .old.example.org .new.example.org answer auto
    rewrite stop {
        name regex (.*)\.eu\.example\.org {1}.example.org
        answer name (.*)\.example\.org {1}.eu.example.org
        answer value (.*)\.internal {1}.example.org
    }
    rewrite ttl example.org 30-300
    rewrite type ANY HINFO
    rewrite class CH IN
    rewrite rcode suffix .example.org NXDOMAIN NOERROR
    template IN A example.org {
        match "^ip-(?P<a>[0-9]+)[.]example[.]org[.]$"
        answer "{{ .Name }} 60 IN A 10.0.0.{{ .Group.a }}"
        fallthrough
    }
    template ANY ANY {
        rcode NXDOMAIN
        authority "example.org. 60 IN SOA a. b. (1 2 3 4 5)"
    }
    transfer example.org {
        to 10.0.0.1 192.0.2.0/24
        to *
    }
    hosts hosts.txt example.org {
        10.0.0.1 One.example.org two.example.org
        fd00::1 one.example.org
        ttl 60
        no_reverse
        reload 1s
        fallthrough
    }
    file db.example.org example.org {
        reload 10s
    }
    autopath @kubernetes
    kubernetes cluster.local {
        pods verified
        ttl 0
        namespaces shop web
        fallthrough
    }
}`)
	all := uint16(dns.TypeANY)
	p := netip.MustParsePrefix
	want := &config.Block{
		Bind: []netip.Addr{netip.MustParseAddr("127.0.0.1"), netip.MustParseAddr("::1")}, Any: true, Minimal: true,
		Log: []config.Log{{Zones: []string{"."}, Classes: []string{"denial", "error"}}},
		ACL: []config.ACL{{Zones: []string{"example.org."}, Rules: []config.ACLRule{{Action: config.Allow, From: []netip.Prefix{p("10.0.0.0/8")}},
			{Action: config.Deny, Types: []uint16{dns.TypeA, dns.TypeAAAA}, From: []netip.Prefix{p("192.0.2.1/32")}}, {Action: config.Deny}}}},
		Rewrites: []config.Rewrite{
			{Field: config.RewriteName, Match: config.Exact, From: "shop.example.org.", To: "cart.shop.svc.cluster.local."},
			{Field: config.RewriteName, Match: config.Suffix, Continue: true, From: ".old.example.org.", To: ".new.example.org."},
			{Field: config.RewriteName, Match: config.Regex, From: `(.*)\.eu\.example\.org`, To: "{1}.example.org", Answers: []config.AnswerRewrite{
				{From: `(.*)\.example\.org`, To: "{1}.eu.example.org"}, {Value: true, From: `(.*)\.internal`, To: "{1}.example.org"}}},
			{Field: config.RewriteTTL, Match: config.Exact, From: "example.org.", MinTTL: 30, MaxTTL: 300},
			{Field: config.RewriteType, FromType: all, ToType: dns.TypeHINFO},
			{Field: config.RewriteClass, FromClass: dns.ClassCHAOS, ToClass: dns.ClassINET},
			{Field: config.RewriteRcode, Match: config.Suffix, From: ".example.org.", FromRcode: dns.RcodeNameError},
		},
		Templates: []config.Template{{Class: dns.ClassINET, Type: dns.TypeA, Zones: []string{"example.org."}, Match: []string{"^ip-(?P<a>[0-9]+)[.]example[.]org[.]$"},
			Answer: []string{"{{ .Name }} 60 IN A 10.0.0.{{ .Group.a }}"}, Fall: config.Fall{On: true}},
			{Class: dns.ClassANY, Type: all, Rcode: dns.RcodeNameError, Authority: []string{"example.org. 60 IN SOA a. b. (1 2 3 4 5)"}}},
		Transfers: []config.Transfer{{Zones: []string{"example.org."}, To: []netip.Prefix{p("10.0.0.1/32"), p("192.0.2.0/24"), p("0.0.0.0/0"), p("::/0")}}},
		Hosts: &config.Hosts{File: "/zones/hosts.txt", Zones: []string{"example.org."}, TTL: 60, NoReverse: true, Reload: time.Second, Fall: config.Fall{On: true},
			Inline: []config.HostLine{{Addr: netip.MustParseAddr("10.0.0.1"), Names: []string{"one.example.org.", "two.example.org."}},
				{Addr: netip.MustParseAddr("fd00::1"), Names: []string{"one.example.org."}}}},
		Files:   []config.File{{Path: "/zones/db.example.org", Zones: []string{"example.org."}, Reload: 10 * time.Second}},
		Cluster: &config.Cluster{Domain: "cluster.local.", Pods: config.PodsVerified, TTL: 1, Namespaces: []string{"shop", "web"}, Fall: config.Fall{On: true}},
	}
	b := got.Blocks[0]
	keys := b.Keys
	b.Keys = nil
	if diff := cmp.Diff(want, b, same); diff != "" {
		t.Error(diff)
	}
	if len(keys) != 130 || keys[0] != (config.Key{Zone: "example.org.", Port: 1053}) || keys[1] != (config.Key{Zone: "example.net.", Port: 53}) || keys[129].Zone != "127.10.in-addr.arpa." {
		t.Errorf("keys: %v", keys)
	}
}

func TestTheCacheIsReadWhole(t *testing.T) {
	got := read(t, `. {
    cache 60 example.org {
        success 5000 300 10
        denial 2500
        prefetch 10 2m 20%
        serve_stale 2h verify
        servfail 1s
        keepttl
        disable denial
    }
}`).Blocks[0].Cache
	want := &config.Cache{Zones: []string{"example.org."}, Success: config.CachePart{Capacity: 5000, Max: 300 * time.Second, Min: 10 * time.Second},
		Denial:   config.CachePart{Capacity: 2500, Max: 60 * time.Second, Min: 5 * time.Second, Off: []string{"."}},
		Prefetch: config.Prefetch{Amount: 10, Within: 2 * time.Minute, Percent: 20}, Stale: 2 * time.Hour, ServFail: time.Second, KeepTTL: true}
	if diff := cmp.Diff(want, got, same); diff != "" {
		t.Error(diff)
	}
}

func TestWhatIsWrongIsToldWithItsLineAllAtOnce(t *testing.T) {
	_, err := Parse("/etc/coredns/Corefile", []byte(`. {
    errors
    dnssec {
        key file x
    }
    forwrad . 8.8.8.8
    forward . quad9 {
        max_fials 2
    }
    cache 30 {
        prefetch many
    }
    kubernetes cluster.local {
        labels app=a
    }
    rewrite edns0 local set 0xffee 0x61
    rewrite name regex ( a
    template IN A {
        answer "{{ .Name "
        ederror 21
    }
    hosts {
        not-an-address a.example
    }
}
tls://example.org {
    whoami
}
`), Options{})
	if err == nil {
		t.Fatal("accepted")
	}
	var got []string
	for _, l := range strings.Split(err.Error(), "\n") {
		got = append(got, strings.TrimPrefix(l, "/etc/coredns/Corefile:"))
	}
	for i, want := range []string{
		"3: dnssec: not supported", "6: forwrad: no such plugin (did you mean forward?)", `7: forward: "quad9" is neither`,
		`8: forward: no option "max_fials" (did you mean max_fails?)`, `11: cache: "many" is no number`, "14: kubernetes: labels is not supported",
		"16: rewrite: edns0 is not supported", "17: rewrite: error parsing regexp", "19: template: ", "20: template: ederror is not supported",
		`23: hosts: "not-an-address" is neither`, "26: tls://example.org: podway serves plain DNS", "27: whoami: not supported",
	} {
		if i >= len(got) || !strings.HasPrefix(got[i], want) {
			t.Errorf("got %q, want %q", got[min(i, len(got)-1)], want)
		}
	}
	if len(got) != 13 {
		t.Errorf("%d problems:\n%v", len(got), err)
	}
}

func TestOneProblemAtATime(t *testing.T) {
	for _, c := range []struct{ sentence, text, want string }{
		{"nothing", "# only a comment\n", "Corefile:1: no server block"},
		{"no braces", "example.org\n", "Corefile:1: the server block example.org has no { }"},
		{"an open brace", ". {\n errors\n", "Corefile:1: a { without its }"},
		{"a closing brace", ". {\n}\n}\n", "Corefile:3: a } without its {"},
		{"no zone", "{\n}\n", "Corefile:1: a { without a zone in front of it"},
		{"an open quotation mark", ". {\n log \"x\n}\n", "Corefile:2: a word in quotation marks does not end"},
		{"braces in the braces of a plugin", ". {\n cache {\n  success {\n  }\n }\n}\n", "Corefile:3: braces within"},
		{"a snippet that is not there", ". {\n import there\n}\n", "Corefile:2: import there: there is no snippet of this name above"},
		{"snippets that import themselves", "(a) {\n import a\n import a\n}\n. {\n import a\n}\n", "imports are nested more than 20 deep"},
		{"a zone in two blocks", ". {\n}\n.:53 {\n}\n", "Corefile:3: zone . is served by the block at Corefile:1 already"},
		{"a plugin twice", ". {\n ready\n ready\n}\n", "Corefile:3: ready: the block has it twice"},
		{"a word too many", ". {\n ready :1 :2\n}\n", `Corefile:2: ready: ready: ":2" is one word too many`},
		{"an option of a plugin without any", ". {\n prometheus {\n  a\n }\n}\n", `Corefile:3: prometheus: no option "a"`},
		{"no port", "example.org:dns {\n}\n", `Corefile:1: example.org:dns: "dns" is no port`},
		{"two domains", ". {\n kubernetes a.b c.d\n}\n", "Corefile:2: kubernetes: a.b. and c.d.: one server has one cluster domain"},
		{"no domain", ". {\n kubernetes\n}\n", "Corefile:2: kubernetes: the root is no cluster domain"},
		{"two that differ", "a {\n kubernetes x.y\n}\nb {\n kubernetes x.z\n}\n", "Corefile:5: kubernetes: differs from the one at Corefile:2"},
		{"a TTL that CoreDNS does not take", ". {\n kubernetes x.y {\n  ttl 4000\n }\n}\n", `Corefile:3: kubernetes: "4000" is no number from 0 to 3600`},
		{"a transfer to nobody", ". {\n transfer\n}\n", "Corefile:2: transfer: to whom?"},
		{"an address of the API server", ". {\n kubernetes x.y {\n  endpoint https://a\n }\n}\n", "how to reach the API server is said by --kubeconfig"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			_, err := Parse("Corefile", []byte(c.text), Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestTheEnvironmentAndFilesArePutIn(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"Corefile":        "import snippets/*.conf\n{$ZONE}:{%PORT%} {\n import forward\n log {$NOTHING}\n import \"more conf\"\n}\n",
		"snippets/a.conf": "(forward) {\n forward . {$SERVER}\n}\n",
		"more conf":       "cache 10\nhosts {\n import lines\n}\n",
		"lines":           "10.0.0.1 a.example\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("ZONE", "Example.ORG")
	t.Setenv("PORT", "5353")
	t.Setenv("SERVER", "192.0.2.1")
	c, err := Load(filepath.Join(dir, "Corefile"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := c.Blocks[0]
	if b.Keys[0] != (config.Key{Zone: "example.org.", Port: 5353}) || b.Forwards[0].To[0].String() != "192.0.2.1:53" || b.Cache.Success.Max != 10*time.Second ||
		len(b.Hosts.Inline) != 1 || len(b.Log) != 1 {
		t.Errorf("%+v", b)
	}
	if _, err := Load(filepath.Join(dir, "none"), Options{}); err == nil {
		t.Error("a file that is not there")
	}
}

func TestReverseZonesOfRanges(t *testing.T) {
	for _, c := range []struct{ cidr, want string }{
		{"10.0.0.0/8", "10.in-addr.arpa."},
		{"10.1.2.3/32", "3.2.1.10.in-addr.arpa."},
		{"10.96.0.0/15", "96.10.in-addr.arpa. 97.10.in-addr.arpa."},
		{"0.0.0.0/0", "in-addr.arpa."},
		{"2001:db8::/32", "8.b.d.0.1.0.0.2.ip6.arpa."},
		{"fd00::/7", "c.f.ip6.arpa. d.f.ip6.arpa."},
	} {
		zones := Reverse(netip.MustParsePrefix(c.cidr))
		if got := strings.Join(zones, " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.cidr, got, c.want)
		}
		for _, z := range zones {
			if p, ok := ReversePrefix(z); !ok || !netip.MustParsePrefix(c.cidr).Overlaps(p) {
				t.Errorf("%s: read back as %s", z, p)
			}
		}
	}
	for _, z := range []string{"example.org.", "x.in-addr.arpa.", "300.in-addr.arpa.", "g.ip6.arpa.", "1.2.3.4.5.in-addr.arpa."} {
		if p, ok := ReversePrefix(z); ok {
			t.Errorf("%s is the reverse zone of %s", z, p)
		}
	}
}

// FuzzParse looks for a text that makes the parser panic, hang, or blame a place that is not in the text.
func FuzzParse(f *testing.F) {
	f.Add(Kubeadm)
	f.Add("(s) {\n log\n}\n.:53, a.b {\n import s\n hosts { \n 1.2.3.4 \"a\\\"b\"\n }\n}")
	f.Add("10.0.0.0/9 fd00::/7:53 {$A} {\n rewrite name regex (.*) {1}\n acl {\n  block type A net *\n }\n}")
	f.Fuzz(func(t *testing.T, text string) {
		c, err := Parse("f", []byte(text), Options{Env: func(string) (string, bool) { return "{$A} x", true }})
		if (c == nil) == (err == nil) {
			t.Fatal("neither a configuration nor an error")
		}
		if err != nil {
			for _, e := range err.(interface{ Unwrap() []error }).Unwrap() {
				if p := e.(*Problem); p.At.Line < 1 || p.At.Line > strings.Count(text, "\n")+1 {
					t.Errorf("line %d: %v", p.At.Line, p)
				}
			}
			return
		}
		for _, b := range c.Blocks {
			for _, k := range b.Keys {
				if k.Zone != dns.CanonicalName(k.Zone) {
					t.Errorf("zone %q", k.Zone)
				}
			}
		}
	})
}
