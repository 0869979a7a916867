package zones

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

const zoneText = `$TTL 300
@       IN SOA ns.example.org. admin.example.org. 7 3600 600 86400 60
@       IN NS  ns
@       IN MX  10 mail
ns      IN A   192.0.2.53
mail    IN A   192.0.2.25
www     IN CNAME web
web     IN A   192.0.2.80
web     IN AAAA 2001:db8::80
out     IN CNAME www.corp.example.
loop    IN CNAME loop
a.b.c   IN A   192.0.2.1
*.wild  IN A   192.0.2.2
in.wild IN TXT "not by wildcard"
sub     IN NS  ns.sub
ns.sub  IN A   192.0.2.54
`

func write(t *testing.T, path, text string, at time.Time) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

func TestAZoneFileIsServedAsItSays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db.example.org")
	write(t, path, zoneText, time.Unix(1, 0))
	tb := table(t, "example.org {\n file "+path+"\n}\ncorp.example {\n forward . 192.0.2.9\n}")
	for _, c := range []struct{ sentence, question, want string }{
		{"an address", "web.example.org", "NOERROR web.example.org A 192.0.2.80"},
		{"in the case of the question", "WEB.example.org AAAA", "NOERROR WEB.example.org AAAA 2001:db8::80"},
		{"a type that the name does not have", "web.example.org TXT", "NOERROR"},
		{"a CNAME in the zone", "www.example.org", "NOERROR www.example.org CNAME web.example.org.; web.example.org A 192.0.2.80"},
		{"the CNAME itself", "www.example.org CNAME", "NOERROR www.example.org CNAME web.example.org."},
		{"a CNAME out of the zone", "out.example.org", "NOERROR out.example.org CNAME www.corp.example.; www.corp.example A 192.0.2.9"},
		{"a CNAME to itself", "loop.example.org", "SERVFAIL"},
		{"a name above another", "c.example.org", "NOERROR"},
		{"no such name", "x.example.org", "NXDOMAIN"},
		{"a wildcard", "any.wild.example.org", "NOERROR any.wild.example.org A 192.0.2.2"},
		{"a wildcard over two labels", "a.any.wild.example.org", "NOERROR a.any.wild.example.org A 192.0.2.2"},
		{"a name beside the wildcard", "in.wild.example.org", "NOERROR"},
		{"below a name beside the wildcard", "a.in.wild.example.org", "NXDOMAIN"},
		{"the zone's own", "example.org MX", "NOERROR example.org MX 10 mail.example.org."},
		{"a delegation", "www.sub.example.org", "NOERROR"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			if got := ask(t, tb, c.question); got != c.want {
				t.Errorf("%s: got %s, want %s", c.question, got, c.want)
			}
		})
	}
	referral, _ := tb.Answer(t.Context(), new(dns.Msg).SetQuestion("www.sub.example.org.", dns.TypeA), Client{})
	if referral.Authoritative || len(referral.Ns) != 1 || len(referral.Extra) != 1 || referral.Extra[0].Header().Name != "ns.sub.example.org." {
		t.Errorf("a delegation names its servers: %v", referral)
	}
	denial, _ := tb.Answer(t.Context(), new(dns.Msg).SetQuestion("x.example.org.", dns.TypeA), Client{})
	if len(denial.Ns) != 1 || denial.Ns[0].Header().Ttl != 60 {
		t.Errorf("a denial says how long it holds: %v", denial)
	}
}

func TestChangedFilesAreReadAgainAndBadOnesAreNot(t *testing.T) {
	dir := t.TempDir()
	db, hostsFile := filepath.Join(dir, "db"), filepath.Join(dir, "hosts")
	write(t, db, zoneText, time.Unix(1, 0))
	tb := table(t, ".:53 {\n hosts "+hostsFile+" {\n  10.0.0.1 inline.example\n  no_reverse\n  fallthrough\n }\n file "+db+" example.org\n forward . 192.0.2.1\n}")
	now := time.Now()
	expect := func(sentence, question, want string) {
		t.Helper()
		if got := ask(t, tb, question); got != want {
			t.Errorf("%s: got %s, want %s", sentence, got, want)
		}
	}
	if read(t, tb, "late.example", dns.TypeA) != "cached 192.0.2.1" {
		t.Error("nothing is known of the name yet")
	}
	write(t, hostsFile, "# a comment\n10.0.0.2 Late.example\n10.0.0.3 inline.example\nnonsense\n", time.Unix(2, 0))
	write(t, db, strings.ReplaceAll(zoneText, "192.0.2.80", "192.0.2.81"), time.Unix(2, 0))
	if err := tb.z.Refresh(now.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	expect("it is not time yet", "late.example", "NOERROR late.example A 192.0.2.1")
	if err := tb.z.Refresh(now.Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	expect("a new host", "late.example", "NOERROR late.example A 10.0.0.2")
	expect("a line of the configuration counts before the file", "inline.example", "NOERROR inline.example A 10.0.0.1")
	expect("a new address in the zone", "web.example.org", "NOERROR web.example.org A 192.0.2.81")
	if got := read(t, tb, "late.example", dns.TypeA); got != "slow" {
		t.Errorf("the name is a host now, and it is %s", got)
	}
	write(t, db, "nonsense", time.Unix(3, 0))
	if err := tb.z.Refresh(now.Add(4 * time.Minute)); err == nil || !strings.Contains(err.Error(), "Corefile:7: file: ") {
		t.Errorf("got %v", err)
	}
	expect("the last good zone stays", "web.example.org", "NOERROR web.example.org A 192.0.2.81")
	if err := os.Remove(hostsFile); err != nil {
		t.Fatal(err)
	}
	_ = tb.z.Refresh(now.Add(6 * time.Minute))
	expect("a file that is gone has no hosts", "late.example", "NOERROR late.example A 192.0.2.1")
}

func TestAZoneWithoutSOAIsNone(t *testing.T) {
	for _, text := range []string{"www 60 IN A 192.0.2.1\n", "www 60 IN SOA a b 1 2 3 4 5\n", "www 60 IN A\n"} {
		if _, err := readZone([]byte(text), "example.org.", "db"); err == nil {
			t.Errorf("accepted: %s", text)
		}
	}
	c := &config.Config{Blocks: []*config.Block{{Keys: []config.Key{{Zone: ".", Port: 53}}, Files: []config.File{{Path: "/nowhere", Zones: []string{"a."}}}}}}
	if _, err := New(c, Options{}); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Errorf("got %v", err)
	}
}
