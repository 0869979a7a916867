package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/model"
)

// upstream is the world outside: names to records, "" for an error.
type upstream map[string]string

func (u upstream) Probed(name string) bool { return strings.HasSuffix(name, ".podway-loop.") }

func (u upstream) Exchange(_ context.Context, q *dns.Msg) (*dns.Msg, error) {
	a := new(dns.Msg).SetReply(q)
	a.SetEdns0(4096, true)
	lines, ok := u[q.Question[0].Name]
	switch {
	case !ok:
		a.Rcode = dns.RcodeNameError
	case lines == "":
		return nil, errors.New("silence")
	}
	for l := range strings.Lines(lines) {
		rr, err := dns.NewRR(l)
		if err != nil {
			return nil, err
		}
		a.Answer = append(a.Answer, rr)
	}
	return a, nil
}

func service(name string, ips ...string) *model.Service {
	s := &model.Service{Name: model.N("shop", name), Type: model.ClusterIP, Ports: []model.ServicePort{{Name: "http", Protocol: model.TCP, Port: 80}}}
	for _, ip := range ips {
		s.ClusterIPs = append(s.ClusterIPs, netip.MustParseAddr(ip))
	}
	return s
}

func external(name, target string) *model.Service {
	return &model.Service{Name: model.N("shop", name), Type: model.ExternalName, ExternalName: target}
}

func headless(name string, n int) []any {
	sl := &model.EndpointSlice{Name: model.N("shop", name), Service: model.N("shop", name)}
	for i := range n {
		sl.Endpoints = append(sl.Endpoints, model.Endpoint{Ready: true, Addr: netip.AddrFrom4([4]byte{10, 244, byte(i / 250), byte(i%250 + 1)})})
	}
	return []any{&model.Service{Name: model.N("shop", name), Headless: true}, sl}
}

func shop(t testing.TB) *answers.View {
	t.Helper()
	b := model.NewBuilder(nil)
	objects := append(headless("big", 400), service("cart", "10.96.0.7"), external("db", "db.example.com"), external("gone", "gone.example.com"),
		external("dead", "dead.example.com"), external("in", "big.shop.svc.cluster.local"), external("missing", "nope.shop.svc.cluster.local"))
	for _, o := range objects {
		b.Put(o)
	}
	v, err := answers.New(answers.Options{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	if err != nil {
		t.Fatal(err)
	}
	v, _ = v.Apply(b.Snapshot(time.Unix(1_700_000_000, 0)), model.Everything())
	return v
}

var world = upstream{
	"example.com.":      "example.com. 60 IN A 192.0.2.1",
	"db.example.com.":   "db.example.com. 60 IN CNAME db2.example.com.\ndb2.example.com. 60 IN A 192.0.2.2",
	"dead.example.com.": "",
	"many.example.":     strings.Repeat("many.example. 60 IN TXT \"a text of some length to make the answer large enough\"\n", 30),
}

// start runs a server on loopback.
func start(t testing.TB, o Options) (*Server, string) {
	t.Helper()
	if o.Listen == nil {
		o.Listen = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:0")}
	}
	if o.View == nil {
		v := shop(t)
		o.View = func() *answers.View { return v }
	}
	s := New(o)
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return s, s.Addrs()[0].String()
}

func ask(t testing.TB, network, addr string, q *dns.Msg) *dns.Msg {
	t.Helper()
	c := dns.Client{Net: network, Timeout: 5 * time.Second, UDPSize: 4096}
	a, _, err := c.Exchange(q, addr)
	if err != nil {
		t.Fatalf("%s %v: %v", network, q.Question, err)
	}
	return a
}

// summary is "NOERROR aa A 10.96.0.7".
func summary(m *dns.Msg) string {
	out := []string{dns.RcodeToString[m.Rcode]}
	if m.Authoritative {
		out = append(out, "aa")
	}
	if m.Truncated {
		out = append(out, "tc")
	}
	for _, rr := range m.Answer {
		out = append(out, dns.TypeToString[rr.Header().Rrtype]+" "+strings.TrimPrefix(rr.String(), rr.Header().String()))
	}
	return strings.Join(out, " ")
}

func TestQuestionsOverTheWire(t *testing.T) {
	_, addr := start(t, Options{Upstream: world})
	for _, c := range []struct{ sentence, name, typ, want string }{
		{"a Service", "cart.shop.svc.cluster.local.", "A", "NOERROR aa A 10.96.0.7"},
		{"a missing name of the cluster", "nope.shop.svc.cluster.local.", "A", "NXDOMAIN aa"},
		{"no data", "cart.shop.svc.cluster.local.", "AAAA", "NOERROR aa"},
		{"a reverse name", "7.0.96.10.in-addr.arpa.", "PTR", "NOERROR aa PTR cart.shop.svc.cluster.local."},
		{"ANY has all records", "_http._tcp.cart.shop.svc.cluster.local.", "ANY", "NOERROR aa SRV 0 100 80 cart.shop.svc.cluster.local."},
		{"ANY of an ExternalName is the CNAME", "db.shop.svc.cluster.local.", "ANY", "NOERROR aa CNAME db.example.com."},
		{"ANY of a missing name", "nope.shop.svc.cluster.local.", "ANY", "NXDOMAIN aa"},
		{"a name of the world", "example.com.", "A", "NOERROR A 192.0.2.1"},
		{"a name that the world has not", "nope.example.", "A", "NXDOMAIN"},
		{"a silent world", "dead.example.com.", "A", "SERVFAIL"},
		{"an ExternalName comes with its target's addresses", "db.shop.svc.cluster.local.", "A",
			"NOERROR aa CNAME db.example.com. CNAME db2.example.com. A 192.0.2.2"},
		{"an ExternalName to a name that does not exist", "gone.shop.svc.cluster.local.", "A", "NXDOMAIN aa CNAME gone.example.com."},
		{"an ExternalName that cannot be looked up", "dead.shop.svc.cluster.local.", "A", "SERVFAIL"},
		{"an ExternalName to a missing name of the cluster", "missing.shop.svc.cluster.local.", "A", "NXDOMAIN aa CNAME nope.shop.svc.cluster.local."},
		{"a probe that came back", "x.podway-loop.", "HINFO", "REFUSED"},
		{"a zone transfer of ours", "cluster.local.", "IXFR", "REFUSED"},
	} {
		t.Run(c.sentence, func(t *testing.T) {
			for _, network := range []string{"udp", "tcp"} {
				q := new(dns.Msg).SetQuestion(c.name, dns.StringToType[c.typ])
				a := ask(t, network, addr, q)
				if got := summary(a); got != c.want {
					t.Errorf("%s: got %s, want %s", network, got, c.want)
				}
				if a.Id != q.Id || !a.RecursionAvailable || !a.RecursionDesired || a.IsEdns0() != nil {
					t.Errorf("%s: got %v", network, a)
				}
				q.SetEdns0(1232, true)
				a = ask(t, network, addr, q)
				if opt := a.IsEdns0(); opt == nil || !opt.Do() || opt.UDPSize() != answers.MaxUDP || summary(a) != c.want {
					t.Errorf("%s with EDNS: got %v", network, a)
				}
			}
		})
	}
}

func TestOddQuestionsOverTheWire(t *testing.T) {
	_, addr := start(t, Options{Upstream: world})
	for name, c := range map[string]struct {
		change func(*dns.Msg)
		want   int
	}{
		"class CH is refused":          {func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassCHAOS }, dns.RcodeRefused},
		"class ANY is refused":         {func(m *dns.Msg) { m.Question[0].Qclass = dns.ClassANY }, dns.RcodeRefused},
		"an update is not implemented": {func(m *dns.Msg) { m.Opcode = dns.OpcodeUpdate }, dns.RcodeNotImplemented},
		"two questions are malformed":  {func(m *dns.Msg) { m.Question = append(m.Question, m.Question[0]) }, dns.RcodeFormatError},
		"EDNS version 1 is unknown":    {func(m *dns.Msg) { m.SetEdns0(1232, false); m.IsEdns0().SetVersion(1) }, dns.RcodeBadVers},
		"AXFR is refused":              {func(m *dns.Msg) { m.Question[0].Qtype = dns.TypeAXFR }, dns.RcodeRefused},
		"a foreign AXFR is refused":    {func(m *dns.Msg) { m.SetAxfr("example.com.") }, dns.RcodeRefused},
	} {
		q := new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA)
		c.change(q)
		wire, err := q.Pack()
		if err != nil {
			t.Fatal(err)
		}
		a := &dns.Msg{}
		if err := a.Unpack(raw(t, addr, wire)); err != nil || a.Rcode != c.want || len(a.Answer) > 0 || a.Id != q.Id {
			t.Errorf("%s: got %v, %v", name, a, err)
		}
	}
	var header [12]byte
	header[0], header[5] = 0xab, 1 // one question that is not there
	for _, msg := range [][]byte{header[:], append(header[:12:12], 0xff), append(header[:12:12], 5, 'a')} {
		if out := raw(t, addr, msg); len(out) != 12 || out[0] != 0xab || out[2]&0x80 == 0 || out[3]&0xf != dns.RcodeFormatError {
			t.Errorf("%x, cut short: got %x", msg, out)
		}
	}
}

// raw sends a datagram and returns the next one.
func raw(t *testing.T, addr string, msg []byte) []byte {
	t.Helper()
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(3 * time.Second))
	c.Write(msg)
	buf := make([]byte, 4096)
	n, err := c.Read(buf)
	if err != nil {
		t.Fatalf("%x: %v", msg, err)
	}
	return buf[:n]
}

func TestAnswersAreNotAnswered(t *testing.T) {
	_, addr := start(t, Options{Upstream: world})
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m := new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA)
	m.Response = true
	wire, _ := m.Pack()
	for _, msg := range [][]byte{wire, wire[:8], append(wire[:12:12], 0xff)} {
		c.Write(msg)
	}
	c.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := c.Read(make([]byte, 512)); err == nil {
		t.Errorf("%d bytes came", n)
	}
}

func TestSizesOverTheWire(t *testing.T) {
	_, addr := start(t, Options{Upstream: world})
	for _, name := range []string{"big.shop.svc.cluster.local.", "in.shop.svc.cluster.local.", "many.example."} {
		typ := dns.TypeA
		if name == "many.example." {
			typ = dns.TypeTXT
		}
		for offered, limit := range map[uint16]int{0: 512, 800: 800, 4096: answers.MaxUDP} {
			q := new(dns.Msg).SetQuestion(name, typ)
			if offered > 0 {
				q.SetEdns0(offered, false)
				q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "24a5ac1234567890"})
			}
			wire, _ := q.Pack()
			out := raw(t, addr, wire)
			var a dns.Msg
			if err := a.Unpack(out); err != nil || len(out) > limit || !a.Truncated || len(a.Answer) == 0 {
				t.Errorf("%s, %d offered: %d bytes, TC %v, %d records, %v", name, offered, len(out), a.Truncated, len(a.Answer), err)
			}
		}
		if a := ask(t, "tcp", addr, new(dns.Msg).SetQuestion(name, typ)); a.Truncated || len(a.Answer) < 30 {
			t.Errorf("%s by TCP: TC %v, %d records", name, a.Truncated, len(a.Answer))
		}
	}
}

func TestBeforeTheFirstViewTheWorldIsServedAndTheClusterFails(t *testing.T) {
	v, _ := answers.New(answers.Options{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12")}})
	_, addr := start(t, Options{Upstream: world, View: func() *answers.View { return v }})
	for name, want := range map[string]string{"cart.shop.svc.cluster.local.": "SERVFAIL", "1.0.96.10.in-addr.arpa.": "SERVFAIL", "example.com.": "NOERROR A 192.0.2.1"} {
		typ := dns.TypeA
		if strings.HasSuffix(name, "arpa.") {
			typ = dns.TypePTR
		}
		if got := summary(ask(t, "udp", addr, new(dns.Msg).SetQuestion(name, typ))); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
		if got := summary(ask(t, "udp", addr, new(dns.Msg).SetQuestion(name, dns.TypeANY))); want == "SERVFAIL" && got != want {
			t.Errorf("ANY %s: got %s", name, got)
		}
	}
}

func TestManyQuestionsOnOneConnection(t *testing.T) {
	_, addr := start(t, Options{Upstream: world})
	conn, err := dns.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(5 * time.Second))
	want := map[uint16]string{}
	for i := range 40 { // sent without waiting for an answer; slow ones may be overtaken
		name := "cart.shop.svc.cluster.local."
		if i%2 == 0 {
			name = "example.com."
		}
		q := new(dns.Msg).SetQuestion(name, dns.TypeA)
		q.Id = uint16(i + 1)
		want[q.Id] = name
		if err := conn.WriteMsg(q); err != nil {
			t.Fatal(err)
		}
	}
	for range 40 {
		a, err := conn.ReadMsg()
		if err != nil {
			t.Fatal(err)
		}
		if a.Question[0].Name != want[a.Id] || len(a.Answer) != 1 {
			t.Errorf("got %v", a)
		}
		delete(want, a.Id)
	}
	if len(want) > 0 {
		t.Errorf("without answer: %v", want)
	}
}

func TestWildcardAddressesAnswerFromTheAddressAsked(t *testing.T) {
	_, addr := start(t, Options{Upstream: world, Listen: []netip.AddrPort{netip.MustParseAddrPort("0.0.0.0:0")}})
	port := netip.MustParseAddrPort(addr).Port()
	for _, name := range []string{"cart.shop.svc.cluster.local.", "example.com."} {
		if got := summary(ask(t, "udp", fmt.Sprintf("127.0.0.5:%d", port), new(dns.Msg).SetQuestion(name, dns.TypeA))); !strings.HasPrefix(got, "NOERROR") {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestATakenAddressSaysWhatToDoAndTheOthersServe(t *testing.T) {
	taken, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, other := netip.MustParseAddrPort("127.0.0.1:0"), netip.MustParseAddrPort(taken.LocalAddr().String())
	s := New(Options{Listen: []netip.AddrPort{other, free, netip.MustParseAddrPort("192.0.2.53:53")}, View: func() *answers.View { return shop(t) }})
	defer s.Close(t.Context())
	err = s.Listen(t.Context())
	if err == nil || !strings.Contains(err.Error(), other.String()) || !strings.Contains(err.Error(), "another DNS server") ||
		!strings.Contains(err.Error(), "192.0.2.53:53") || !strings.Contains(err.Error(), "no device") {
		t.Errorf("got %v", err)
	}
	if got := s.Addrs(); len(got) != 1 {
		t.Fatalf("open: %v", got)
	}
	if got := summary(ask(t, "udp", s.Addrs()[0].String(), new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA))); got != "NOERROR aa A 10.96.0.7" {
		t.Errorf("got %s", got)
	}
	taken.Close()
	if err := s.Listen(t.Context()); err == nil || strings.Contains(err.Error(), other.String()) || len(s.Addrs()) != 2 {
		t.Errorf("after the address was freed: %v, open %v", err, s.Addrs())
	}
}

func TestCloseAnswersWhatIsBeingAsked(t *testing.T) {
	release := make(chan struct{})
	s, addr := start(t, Options{Upstream: slowUpstream{world, release}})
	var wg sync.WaitGroup
	wg.Go(func() {
		if got := summary(ask(t, "tcp", addr, new(dns.Msg).SetQuestion("example.com.", dns.TypeA))); got != "NOERROR A 192.0.2.1" {
			t.Errorf("got %s", got)
		}
	})
	time.Sleep(50 * time.Millisecond)
	go func() { time.Sleep(50 * time.Millisecond); close(release) }()
	if err := s.Close(t.Context()); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if len(s.Addrs()) != 0 {
		t.Error("still open")
	}
	if _, _, err := new(dns.Client).Exchange(new(dns.Msg).SetQuestion("example.com.", dns.TypeA), addr); err == nil {
		t.Error("still answers")
	}
}

// slowUpstream answers when released.
type slowUpstream struct {
	upstream
	release chan struct{}
}

func (u slowUpstream) Exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	<-u.release
	return u.upstream.Exchange(ctx, q)
}

func TestTooManyQuestionsUpstreamAreToldAtOnce(t *testing.T) {
	release := make(chan struct{})
	_, addr := start(t, Options{Upstream: slowUpstream{world, release}, MaxSlow: 1})
	defer close(release)
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	wire, _ := new(dns.Msg).SetQuestion("example.com.", dns.TypeA).Pack()
	c.Write(wire)
	time.Sleep(50 * time.Millisecond)
	if got := summary(ask(t, "udp", addr, new(dns.Msg).SetQuestion("example.com.", dns.TypeA))); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
	if got := summary(ask(t, "udp", addr, new(dns.Msg).SetQuestion("cart.shop.svc.cluster.local.", dns.TypeA))); got != "NOERROR aa A 10.96.0.7" {
		t.Errorf("names of the cluster must not suffer: got %s", got)
	}
}

// The chance is what a client sees: with 400 endpoints of which 29 fit, each must come first about as often as any other.
func TestEveryEndpointIsEquallyLikelyOverTheWire(t *testing.T) {
	_, addr := start(t, Options{})
	c, err := net.Dial("udp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(time.Minute))
	const asked, onTheWay, endpoints = 8_000, 16, 400
	wire, _ := new(dns.Msg).SetQuestion("big.shop.svc.cluster.local.", dns.TypeA).Pack()
	first, present, records, buf := map[string]int{}, map[string]int{}, 0, make([]byte, 1500)
	for i := range asked + onTheWay {
		if i < asked {
			c.Write(wire)
		}
		if i < onTheWay {
			continue
		}
		n, err := c.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		var a dns.Msg
		if err := a.Unpack(buf[:n]); err != nil || !a.Truncated {
			t.Fatalf("%v: %v", err, &a)
		}
		first[a.Answer[0].(*dns.A).A.String()]++
		for _, rr := range a.Answer {
			present[rr.(*dns.A).A.String()]++
			records++
		}
	}
	for name, counts := range map[string]struct {
		n   map[string]int
		all int
	}{"first": {first, asked}, "there": {present, records}} {
		want, chi := float64(counts.all)/endpoints, 0.0
		for _, n := range counts.n {
			chi += (float64(n) - want) * (float64(n) - want) / want
		}
		if name == "there" {
			chi /= float64(records) / asked // those of one answer are neighbours, not independent
		}
		if len(counts.n) != endpoints || chi > 560 { // 399 degrees of freedom: more than five standard deviations
			t.Errorf("%s: %d of %d endpoints, chi square %.0f", name, len(counts.n), endpoints, chi)
		}
	}
}
