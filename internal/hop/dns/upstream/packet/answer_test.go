package packet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/miekg/dns"
)

// message is an answer to a question for name, in sections: lines of records, "--" between sections.
func message(t testing.TB, name string, typ uint16, lines ...string) *dns.Msg {
	t.Helper()
	m := new(dns.Msg).SetReply(new(dns.Msg).SetQuestion(name, typ))
	section := &m.Answer
	for _, l := range lines {
		if l == "--" {
			if section == &m.Answer {
				section = &m.Ns
			} else {
				section = &m.Extra
			}
			continue
		}
		rr, err := dns.NewRR(l)
		if err != nil {
			t.Fatal(err)
		}
		*section = append(*section, rr)
	}
	return m
}

func kept(t testing.TB, m *dns.Msg) *Answer {
	t.Helper()
	a, err := New(m)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// asked is a client's query and what an answer needs of it.
func asked(t testing.TB, q *dns.Msg, limit int) Client {
	t.Helper()
	wire, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	end, _ := skipName(wire, headerSize)
	opt := q.IsEdns0()
	return Client{Query: wire[:end+4], Limit: limit, EDNS: opt != nil, DO: opt != nil && opt.Do(), AD: q.AuthenticatedData, Offer: 1232}
}

func read(t testing.TB, wire []byte) *dns.Msg {
	t.Helper()
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		t.Fatalf("%v: %x", err, wire)
	}
	return m
}

// text is a section's records.
func text(rrs []dns.RR) []string {
	var out []string
	for _, rr := range rrs {
		out = append(out, strings.ReplaceAll(rr.String(), "\t", " "))
	}
	return out
}

func TestAnAnswerGoesOutAsTheClientAsked(t *testing.T) {
	m := message(t, "example.com.", dns.TypeA, "EXAMPLE.com. 60 IN CNAME www.Example.net.", "www.example.net. 50 IN A 192.0.2.1", "--", "example.net. 40 IN NS ns.example.net.", "--", "ns.example.net. 30 IN A 192.0.2.53")
	m.SetEdns0(4096, true)
	m.AuthenticatedData = true
	a := kept(t, m)
	q := new(dns.Msg).SetQuestion("eXaMple.COM.", dns.TypeA)
	q.CheckingDisabled = true
	q.SetEdns0(4096, true)
	got := read(t, a.AppendTo(nil, asked(t, q, 1232), Life{Age: 35}, 0))
	if got.Id != q.Id || !got.Response || !got.RecursionDesired || !got.RecursionAvailable || !got.CheckingDisabled || !got.AuthenticatedData || got.Authoritative || got.Truncated {
		t.Errorf("header: %v", got.MsgHdr)
	}
	if got.Question[0].Name != "eXaMple.COM." {
		t.Errorf("the question came back as %s", got.Question[0].Name)
	}
	want := []string{"eXaMple.COM. 25 IN CNAME www.Example.net.", "www.Example.net. 15 IN A 192.0.2.1"}
	if diff := cmp.Diff(want, text(got.Answer)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"Example.net. 5 IN NS ns.Example.net."}, text(got.Ns)); diff != "" && !strings.EqualFold(got.Ns[0].Header().Name, "example.net.") {
		t.Error(diff)
	}
	opt := got.IsEdns0()
	if opt == nil || !opt.Do() || opt.UDPSize() != 1232 || len(got.Extra) != 2 || got.Extra[0].Header().Ttl != 0 {
		t.Errorf("additional: %v", got.Extra)
	}
}

func TestWithoutEDNSThereIsNoOPTAndNoAD(t *testing.T) {
	m := message(t, "example.com.", dns.TypeA, "example.com. 60 IN A 192.0.2.1")
	m.AuthenticatedData = true
	a := kept(t, m)
	got := read(t, a.AppendTo(nil, asked(t, new(dns.Msg).SetQuestion("example.com.", dns.TypeA), 512), Life{}, 0))
	if got.IsEdns0() != nil || got.AuthenticatedData {
		t.Errorf("got %v", got)
	}
	q := new(dns.Msg).SetQuestion("example.com.", dns.TypeA)
	q.AuthenticatedData = true
	if got := read(t, a.AppendTo(nil, asked(t, q, 512), Life{}, 0)); !got.AuthenticatedData {
		t.Error("AD was asked for and is missing")
	}
}

func TestAnOldAnswerTellsAShortTime(t *testing.T) {
	a := kept(t, message(t, "example.com.", dns.TypeA, "example.com. 600 IN A 192.0.2.1", "--", "example.com. 5 IN NS ns.example.com."))
	got := read(t, a.AppendTo(nil, asked(t, new(dns.Msg).SetQuestion("example.com.", dns.TypeA), 512), Life{Age: 1000, Stale: 30}, 0))
	if got.Answer[0].Header().Ttl != 30 || got.Ns[0].Header().Ttl != 30 {
		t.Errorf("got %v", got)
	}
}

func TestAddressesTakeTurns(t *testing.T) {
	for name, c := range map[string]struct {
		typ   uint16
		lines []string
		fixed int // records in front
	}{
		"A":            {dns.TypeA, []string{"x.example. 60 IN A 192.0.2.1", "x.example. 60 IN A 192.0.2.2", "x.example. 60 IN A 192.0.2.3"}, 0},
		"AAAA":         {dns.TypeAAAA, []string{"x.example. 60 IN AAAA 2001:db8::1", "x.example. 60 IN AAAA 2001:db8::2", "x.example. 60 IN AAAA 2001:db8::3"}, 0},
		"behind CNAME": {dns.TypeA, []string{"x.example. 60 IN CNAME Y.example.", "y.example. 60 IN A 192.0.2.1", "y.example. 60 IN A 192.0.2.2", "y.example. 60 IN A 192.0.2.3"}, 1},
	} {
		a := kept(t, message(t, "x.example.", c.typ, c.lines...))
		client := asked(t, new(dns.Msg).SetQuestion("x.example.", c.typ), 512)
		first := map[string]int{}
		for turn := range uint32(30) {
			got := read(t, a.AppendTo(nil, client, Life{}, turn))
			first[got.Answer[c.fixed].String()]++
			set := map[string]bool{}
			for _, rr := range got.Answer {
				set[rr.String()] = true
			}
			if len(set) != len(c.lines) {
				t.Errorf("%s: turn %d: %v", name, turn, got.Answer)
			}
		}
		if len(first) != 3 {
			t.Errorf("%s: first came %v", name, first)
		}
		for rr, n := range first {
			if n != 10 {
				t.Errorf("%s: %s came first %d times of 30", name, rr, n)
			}
		}
	}
}

func TestOtherRecordsKeepTheirOrder(t *testing.T) {
	lines := []string{"x.example. 60 IN MX 10 a.example.", "x.example. 60 IN MX 10 b.example.", "x.example. 60 IN MX 20 c.example."}
	a := kept(t, message(t, "x.example.", dns.TypeMX, lines...))
	for turn := range uint32(3) {
		got := read(t, a.AppendTo(nil, asked(t, new(dns.Msg).SetQuestion("x.example.", dns.TypeMX), 512), Life{}, turn))
		if diff := cmp.Diff(lines, text(got.Answer)); diff != "" {
			t.Error(diff)
		}
	}
}

func TestWhatDoesNotFitGoesInOrder(t *testing.T) {
	lines := []string{}
	for i := range 20 {
		lines = append(lines, fmt.Sprintf("x.example. 60 IN A 192.0.2.%d", i+1))
	}
	lines = append(lines, "--", "example. 60 IN NS ns.example.", "--", "ns.example. 60 IN A 192.0.2.53")
	a := kept(t, message(t, "x.example.", dns.TypeA, lines...))
	q := new(dns.Msg).SetQuestion("x.example.", dns.TypeA)
	question := len(asked(t, q, 0).Query)
	all := question + 20*16 + 14 + 5 + 16 - 3 // NS: pointer, ten bytes, a label of two and a pointer
	full := len(a.AppendTo(nil, asked(t, q, 4096), Life{}, 0))
	t.Logf("whole answer: %d bytes, reckoned %d", full, all)
	for _, c := range []struct {
		limit         int
		an, ns, extra int
		tc            bool
	}{
		{full, 20, 1, 1, false},
		{full - 1, 20, 1, 0, false},
		{question + 20*16, 20, 0, 0, false},
		{question + 20*16 - 1, 19, 0, 0, true},
		{question + 16, 1, 0, 0, true},
		{question + 15, 0, 0, 0, true},
	} {
		seen := map[string]bool{}
		for turn := range uint32(20) {
			wire := a.AppendTo(nil, asked(t, q, c.limit), Life{Age: 10}, turn)
			got := read(t, wire)
			if len(wire) > c.limit || len(got.Answer) != c.an || len(got.Ns) != c.ns || len(got.Extra) != c.extra || got.Truncated != c.tc {
				t.Fatalf("limit %d: %d bytes, %v", c.limit, len(wire), got)
			}
			for _, rr := range got.Answer {
				if rr.Header().Ttl != 50 || rr.Header().Name != "x.example." {
					t.Fatalf("limit %d: %v", c.limit, rr)
				}
				seen[rr.String()] = true
			}
		}
		if c.an > 0 && len(seen) != 20 {
			t.Errorf("limit %d: only %d of 20 addresses were ever seen", c.limit, len(seen))
		}
	}
}

func TestTheOPTRecordCounts(t *testing.T) {
	a := kept(t, message(t, "x.example.", dns.TypeA, "x.example. 60 IN A 192.0.2.1", "x.example. 60 IN A 192.0.2.2"))
	q := new(dns.Msg).SetQuestion("x.example.", dns.TypeA)
	q.SetEdns0(512, false)
	c := asked(t, q, 0)
	c.Limit = len(c.Query) + 32 + optSize
	if got := read(t, a.AppendTo(nil, c, Life{}, 0)); got.Truncated || len(got.Answer) != 2 {
		t.Errorf("got %v", got)
	}
	c.Limit--
	if got := read(t, a.AppendTo(nil, c, Life{}, 0)); !got.Truncated || len(got.Answer) != 1 || got.IsEdns0() == nil {
		t.Errorf("got %v", got)
	}
}

func TestANegativeAnswerThatDoesNotFitSaysSo(t *testing.T) {
	m := message(t, "x.example.", dns.TypeA, "--", "example. 60 IN SOA ns.example. h.example. 1 2 3 4 60")
	m.Rcode = dns.RcodeNameError
	c := asked(t, new(dns.Msg).SetQuestion("x.example.", dns.TypeA), 40)
	if got := read(t, kept(t, m).AppendTo(nil, c, Life{}, 0)); !got.Truncated || got.Rcode != dns.RcodeNameError || len(got.Ns) != 0 {
		t.Errorf("got %v", got)
	}
}

func TestHowLongAnAnswerIsKept(t *testing.T) {
	limits := Limits{Max: time.Hour, MaxNegative: 30 * time.Second, NoSOA: 5 * time.Second}
	const soa = "example. 300 IN SOA ns. h. 1 2 3 4 20"
	for name, c := range map[string]struct {
		lines    []string
		rcode    int
		want     time.Duration
		negative bool
	}{
		"the least of its records":             {lines: []string{"x. 60 IN A 192.0.2.1", "x. 30 IN A 192.0.2.2"}, want: 30 * time.Second},
		"an hour at most":                      {lines: []string{"x. 86400 IN A 192.0.2.1"}, want: time.Hour},
		"not at all when a record says so":     {lines: []string{"x. 0 IN A 192.0.2.1"}},
		"not at all with a time beyond 2^31":   {lines: []string{"x. 2147483648 IN A 192.0.2.1"}},
		"no data as the SOA says":              {lines: []string{"--", soa}, want: 20 * time.Second, negative: true},
		"NXDOMAIN as the SOA says":             {lines: []string{"--", soa}, rcode: dns.RcodeNameError, want: 20 * time.Second, negative: true},
		"the SOA's own time counts":            {lines: []string{"--", "example. 7 IN SOA ns. h. 1 2 3 4 20"}, want: 7 * time.Second, negative: true},
		"half a minute at most when negative":  {lines: []string{"--", "example. 9000 IN SOA ns. h. 1 2 3 4 9000"}, want: 30 * time.Second, negative: true},
		"NXDOMAIN without SOA a moment":        {rcode: dns.RcodeNameError, want: 5 * time.Second, negative: true},
		"a referral not at all":                {lines: []string{"--", "example. 60 IN NS ns.example."}, negative: true},
		"a chain into nothing as both say":     {lines: []string{"x. 10 IN CNAME y.", "--", soa}, want: 10 * time.Second, negative: true},
		"a chain into nothing as the SOA says": {lines: []string{"x. 60 IN CNAME y.", "--", soa}, rcode: dns.RcodeNameError, want: 20 * time.Second, negative: true},
	} {
		m := message(t, "x.", dns.TypeA, c.lines...)
		m.Rcode = c.rcode
		got, negative := limits.Apply(m)
		if got != c.want || negative != c.negative {
			t.Errorf("%s: got %v, negative %v", name, got, negative)
		}
		for _, rr := range append(m.Answer, m.Ns...) {
			if left := seconds(rr.Header().Ttl); left > time.Hour || negative && left > 30*time.Second {
				t.Errorf("%s: clients are told %v", name, rr)
			}
		}
	}
	m := message(t, "x.", dns.TypeA, "x. 1 IN A 192.0.2.1")
	limits.Min = 10 * time.Second
	if got, _ := limits.Apply(m); got != limits.Min || m.Answer[0].Header().Ttl != 10 {
		t.Errorf("with a least time of 10 s: %v, %v", got, m.Answer)
	}
}

func TestWritingAllocatesNothing(t *testing.T) {
	a := kept(t, message(t, "x.example.", dns.TypeA, "x.example. 60 IN CNAME y.example.", "y.example. 60 IN A 192.0.2.1", "y.example. 60 IN A 192.0.2.2"))
	q := new(dns.Msg).SetQuestion("x.example.", dns.TypeA)
	q.SetEdns0(1232, true)
	c, out := asked(t, q, 1232), make([]byte, 0, 1232)
	if n := testing.AllocsPerRun(100, func() { a.AppendTo(out, c, Life{Age: 3}, 7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestACopyInGivenMemoryIsTheSameAnswer(t *testing.T) {
	for _, n := range []int{1, 4, 30} {
		var lines []string
		for i := range n {
			lines = append(lines, fmt.Sprintf("x.example. 60 IN A 192.0.2.%d", i+1))
		}
		a := kept(t, message(t, "x.example.", dns.TypeA, lines...))
		room, ttls := make([]byte, 100), make([]uint16, 4)
		b := a.In(room[:0], ttls[:0])
		left := b.Room(room[:0])
		for i := range left[:cap(left)] {
			left[:cap(left)][i] = 0xff // the rest may be used for something else
		}
		c := asked(t, new(dns.Msg).SetQuestion("x.example.", dns.TypeA), 4096)
		if diff := cmp.Diff(a.AppendTo(nil, c, Life{Age: 3}, 5), b.AppendTo(nil, c, Life{Age: 3}, 5)); diff != "" {
			t.Errorf("%d records: %s", n, diff)
		}
	}
}
