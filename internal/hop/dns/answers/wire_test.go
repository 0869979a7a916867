package answers

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/miekg/dns"
)

// exchange packs q, answers it and unpacks the answer.
func exchange(t testing.TB, v *View, q *dns.Msg, tcp bool, turn uint32) (*dns.Msg, []byte) {
	t.Helper()
	wire, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	out, r := v.Answer(new(Query), make([]byte, 0, 65535), wire, tcp, turn)
	if r.Kind != Answered {
		t.Fatalf("%s: kind %d", q.Question[0].String(), r.Kind)
	}
	m := &dns.Msg{}
	if err := m.Unpack(out); err != nil {
		t.Fatalf("%s: the answer does not unpack: %v\n%x", q.Question[0].String(), err, out)
	}
	return m, out
}

func question(name string, typ uint16) *dns.Msg { return new(dns.Msg).SetQuestion(name, typ) }

// bigCluster has a headless Service of n endpoints.
func bigCluster(t testing.TB, n int) *View {
	sl := slice("shop", "big", "big-a")
	for i := range n {
		sl.Endpoints = append(sl.Endpoints, endpoint(fmt.Sprintf("pod-%d=10.244.%d.%d", i, i/250, i%250+1)))
	}
	return view(t, options, snapshot(headless("shop", "big"), sl))
}

func TestTheQuestionIsEchoedInItsCase(t *testing.T) {
	m, _ := exchange(t, view(t, options, shop()), question("cArT.shop.SVC.cluster.local.", dns.TypeA), false, 0)
	if m.Question[0].Name != "cArT.shop.SVC.cluster.local." || m.Answer[0].Header().Name != m.Question[0].Name {
		t.Errorf("question %s, owner %s", m.Question[0].Name, m.Answer[0].Header().Name)
	}
}

func TestFlagsSayThatWeKnowAndThatWeRecurse(t *testing.T) {
	q := question("cart.shop.svc.cluster.local.", dns.TypeA)
	q.CheckingDisabled = true
	m, _ := exchange(t, view(t, options, shop()), q, false, 0)
	if !m.Response || !m.Authoritative || !m.RecursionDesired || !m.RecursionAvailable || !m.CheckingDisabled || m.Truncated || m.Id != q.Id {
		t.Errorf("got %v", m.MsgHdr)
	}
	q.RecursionDesired = false
	if m, _ = exchange(t, view(t, options, shop()), q, false, 0); m.RecursionDesired {
		t.Error("RD was set though the client did not ask for it")
	}
}

func TestAnAnswerIsCompressed(t *testing.T) {
	q := question("cart.shop.svc.cluster.local.", dns.TypeA)
	_, out := exchange(t, view(t, options, shop()), q, false, 0)
	if len(out) != q.Len()+16 {
		t.Errorf("one address costs 16 bytes beside the question's %d, got %d", q.Len(), len(out))
	}
}

func TestOPTIsAnsweredOnlyWhenAsked(t *testing.T) {
	v := view(t, options, shop())
	for _, name := range []string{"cart.shop.svc.cluster.local.", "nope.shop.svc.cluster.local."} {
		q := question(name, dns.TypeA)
		if m, _ := exchange(t, v, q, false, 0); m.IsEdns0() != nil {
			t.Errorf("%s: OPT though the client sent none", name)
		}
		q.SetEdns0(4096, true)
		m, _ := exchange(t, v, q, false, 0)
		if opt := m.IsEdns0(); opt == nil || opt.UDPSize() != MaxUDP || !opt.Do() || opt.Version() != 0 {
			t.Errorf("%s: got %v", name, opt)
		}
	}
}

func TestUnknownOptionsAreIgnored(t *testing.T) {
	q := question("cart.shop.svc.cluster.local.", dns.TypeA)
	q.SetEdns0(1232, false)
	q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "24a5ac1234567890"})
	m, _ := exchange(t, view(t, options, shop()), q, false, 0)
	if len(m.Answer) != 1 || len(m.IsEdns0().Option) != 0 {
		t.Errorf("got %v", m)
	}
}

func TestACookieTakesNoRoom(t *testing.T) {
	v := bigCluster(t, 400)
	for _, offered := range []uint16{512, 700, 1232} {
		q := question("big.shop.svc.cluster.local.", dns.TypeA)
		q.SetEdns0(offered, false)
		plain, _ := exchange(t, v, q, false, 0)
		q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "24a5ac1234567890" + "24a5ac123456789024a5ac1234567890"})
		m, out := exchange(t, v, q, false, 0)
		if len(out) > int(offered) || len(m.Answer) != len(plain.Answer) || !m.Truncated || len(m.IsEdns0().Option) != 0 {
			t.Errorf("offered %d: %d bytes with %d records, without cookie %d", offered, len(out), len(m.Answer), len(plain.Answer))
		}
	}
}

func TestTheVersionMayBeKeptForLong(t *testing.T) {
	m, _ := exchange(t, view(t, options, shop()), question("dns-version.cluster.local.", dns.TypeTXT), false, 0)
	if len(m.Answer) != 1 || m.Answer[0].Header().Ttl != 28800 {
		t.Errorf("got %v", m.Answer)
	}
}

func TestAnAnswerFitsWhatTheClientTakes(t *testing.T) {
	v := bigCluster(t, 400)
	for _, c := range []struct {
		offered uint16 // 0 = no EDNS
		tcp     bool
		limit   int
		tc      bool
	}{{0, false, 512, true}, {100, false, 512, true}, {600, false, 600, true}, {4096, false, MaxUDP, true}, {0, true, 65535, false}} {
		q := question("big.shop.svc.cluster.local.", dns.TypeA)
		if c.offered > 0 {
			q.SetEdns0(c.offered, false)
		}
		m, out := exchange(t, v, q, c.tcp, 7)
		if len(out) > c.limit || m.Truncated != c.tc || len(m.Answer) == 0 {
			t.Errorf("offered %d, tcp %v: %d bytes, TC %v, %d records", c.offered, c.tcp, len(out), m.Truncated, len(m.Answer))
		}
		if c.tc && len(out)+16 <= c.limit {
			t.Errorf("offered %d: another record would have fitted into %d bytes beside %d", c.offered, c.limit, len(out))
		}
	}
}

func TestAnAnswerThatJustFitsIsNotTruncated(t *testing.T) {
	// 12 header, 31 question, n times 16, 11 OPT.
	v := bigCluster(t, 29)
	q := question("big.shop.svc.cluster.local.", dns.TypeA)
	m, out := exchange(t, v, q, false, 3)
	if m.Truncated || len(m.Answer) != 29 || len(out) > 512 {
		t.Errorf("%d bytes, TC %v, %d records", len(out), m.Truncated, len(m.Answer))
	}
	q.SetEdns0(512, false)
	if m, out = exchange(t, v, q, false, 3); len(out) > 512 || m.IsEdns0() == nil {
		t.Errorf("OPT must count: %d bytes", len(out))
	}
}

func TestAdditionalRecordsAreLeftOutBeforeAnAnswerIsTruncated(t *testing.T) {
	v := bigCluster(t, 8)
	q := question("_http._tcp.big.shop.svc.cluster.local.", dns.TypeSRV)
	m, out := exchange(t, v, q, false, 0)
	if m.Truncated || len(m.Answer) != 8 || len(m.Extra) != 0 {
		t.Errorf("512 bytes hold 8 SRV records without their addresses: got %d and %d, TC %v, %d bytes", len(m.Answer), len(m.Extra), m.Truncated, len(out))
	}
	q.SetEdns0(1232, false)
	m, _ = exchange(t, v, q, false, 0)
	if len(m.Answer) != 8 || len(m.Extra) != 9 {
		t.Errorf("1232 bytes hold all and OPT: got %d and %d", len(m.Answer), len(m.Extra))
	}
	names := map[string]bool{}
	for _, rr := range m.Answer {
		names[rr.(*dns.SRV).Target] = true
	}
	for _, rr := range m.Extra {
		if a, ok := rr.(*dns.A); ok && !names[a.Hdr.Name] {
			t.Errorf("additional %s is no target", a.Hdr.Name)
		}
	}
}

func TestMoreEndpointsThanAMessageHoldsStillAnswer(t *testing.T) {
	m, out := exchange(t, bigCluster(t, 10_000), question("big.shop.svc.cluster.local.", dns.TypeA), true, 4242)
	if len(out) > 65535 || len(m.Answer) < 4000 || m.Truncated {
		t.Errorf("%d bytes, %d records, TC %v", len(out), len(m.Answer), m.Truncated)
	}
}

func TestEveryEndpointIsEquallyLikelyToComeFirst(t *testing.T) {
	for _, size := range []int{15, 100} { // 100 do not fit into 512 bytes
		v, first, seen := bigCluster(t, size), map[string]int{}, map[string]int{}
		for turn := range uint32(size * 10) {
			m, _ := exchange(t, v, question("big.shop.svc.cluster.local.", dns.TypeA), false, turn)
			first[m.Answer[0].(*dns.A).A.String()]++
			for _, rr := range m.Answer {
				seen[rr.(*dns.A).A.String()]++
			}
		}
		for addr, n := range first {
			if n != 10 || seen[addr] != seen[m0(first)] {
				t.Errorf("of %d: %s came first %d times of 10, was there %d times", size, addr, n, seen[addr])
			}
		}
		if len(first) != size {
			t.Errorf("%d of %d came first", len(first), size)
		}
	}
}

func m0(m map[string]int) string {
	for k := range m {
		return k
	}
	return ""
}

func TestRecordsOfDifferentSizesRotateWhole(t *testing.T) {
	v := bigCluster(t, 12) // pod-9 and pod-10 differ in length
	for turn := range uint32(12) {
		m, _ := exchange(t, v, question("_http._tcp.big.shop.svc.cluster.local.", dns.TypeSRV), true, turn)
		if len(m.Answer) != 12 || len(m.Extra) != 12 {
			t.Fatalf("turn %d: %d and %d records", turn, len(m.Answer), len(m.Extra))
		}
	}
}

func TestOddQuestionsAreLeftToOthers(t *testing.T) {
	v := view(t, options, shop())
	base := func(f func(*dns.Msg)) []byte {
		q := question("cart.shop.svc.cluster.local.", dns.TypeA)
		f(q)
		wire, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		return wire
	}
	for name, wire := range map[string][]byte{
		"class CH":     base(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }),
		"class ANY":    base(func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }),
		"type ANY":     base(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeANY }),
		"AXFR":         base(func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }),
		"an update":    base(func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }),
		"an answer":    base(func(m *dns.Msg) { m.Response = true }),
		"EDNS 1":       base(func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }),
		"two":          base(func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }),
		"none":         base(func(m *dns.Msg) { m.Question = nil }),
		"no more":      base(func(*dns.Msg) {})[:20],
		"nothing":      nil,
		"a pointer":    append(base(func(*dns.Msg) {})[:12], 0xc0, 12, 0, 1, 0, 1),
		"a long label": append(base(func(*dns.Msg) {})[:12], 64),
		"a long name":  append(append(base(func(*dns.Msg) {})[:12], bytes.Repeat([]byte("\x01a"), 130)...), 0, 0, 1, 0, 1),
	} {
		if out, r := v.Answer(new(Query), nil, wire, false, 0); r.Kind != Odd || out != nil {
			t.Errorf("%s: kind %d, answer %x", name, r.Kind, out)
		}
	}
}
