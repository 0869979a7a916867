package upstream

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/miekg/dns"
)

// fake is an upstream server on loopback, UDP and TCP on one port.
type fake struct {
	addr     netip.AddrPort
	udp, tcp atomic.Int32 // questions, probes for loops not counted
	sick     atomic.Bool  // checks are not answered
	answer   atomic.Value // func(tcp bool, q, a *dns.Msg) bool: false = silence
}

type answerFunc = func(tcp bool, q, a *dns.Msg) bool

// start runs a fake until the test ends.
func start(t *testing.T, answer answerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.answer.Store(answer)
	l, pc := listen(t)
	f.addr = netip.MustParseAddrPort(pc.LocalAddr().String())
	serve := func(s *dns.Server, tcp bool, count *atomic.Int32) {
		s.Handler = dns.HandlerFunc(func(w dns.ResponseWriter, q *dns.Msg) {
			a := new(dns.Msg).SetReply(q)
			if strings.HasSuffix(q.Question[0].Name, loopZone) {
				a.Rcode = dns.RcodeNameError
				w.WriteMsg(a)
				return
			}
			if q.Question[0].Name == "." { // a check
				if !f.sick.Load() {
					w.WriteMsg(a)
				}
				return
			}
			count.Add(1)
			if f.answer.Load().(answerFunc)(tcp, q, a) {
				w.WriteMsg(a)
			}
		})
		go s.ActivateAndServe()
		t.Cleanup(func() { s.Shutdown() })
	}
	serve(&dns.Server{PacketConn: pc}, false, &f.udp)
	serve(&dns.Server{Listener: l}, true, &f.tcp)
	return f
}

// listen opens a port for TCP and UDP.
func listen(t *testing.T) (net.Listener, net.PacketConn) {
	t.Helper()
	var err error
	for range 20 { // another process may have the port for UDP
		var l net.Listener
		if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
			continue
		}
		var pc net.PacketConn
		if pc, err = net.ListenPacket("udp", l.Addr().String()); err == nil {
			return l, pc
		}
		l.Close()
	}
	t.Fatal(err)
	return nil, nil
}

func records(lines ...string) answerFunc {
	return func(_ bool, _, a *dns.Msg) bool {
		for _, l := range lines {
			rr, err := dns.NewRR(l)
			if err != nil {
				panic(err)
			}
			a.Answer = append(a.Answer, rr)
		}
		return true
	}
}

func rcode(code int) answerFunc {
	return func(_ bool, _, a *dns.Msg) bool { a.Rcode = code; return true }
}

func silence(bool, *dns.Msg, *dns.Msg) bool { return false }

// forwarder asks the fakes in their order.
func forwarder(o Options, fakes ...*fake) *Forwarder {
	for _, f := range fakes {
		o.Servers = append(o.Servers, At(f.addr)...)
	}
	return New(o)
}

func question(name string) *dns.Msg { return new(dns.Msg).SetQuestion(name, dns.TypeA) }

// mustAsk returns the first record's data, or the rcode.
func mustAsk(t *testing.T, f *Forwarder, q *dns.Msg) string {
	t.Helper()
	m, err := f.Exchange(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	if len(m.Answer) == 0 {
		return dns.RcodeToString[m.Rcode]
	}
	return strings.TrimPrefix(m.Answer[0].String(), m.Answer[0].Header().String())
}

func TestAnAnswerComesFromTheFirstServer(t *testing.T) {
	one, two := start(t, records("example.com. 60 IN A 192.0.2.1")), start(t, records("example.com. 60 IN A 192.0.2.2"))
	f := forwarder(Options{}, one, two)
	if got := mustAsk(t, f, question("example.com.")); got != "192.0.2.1" {
		t.Errorf("got %s", got)
	}
	if two.udp.Load() != 0 {
		t.Error("the second server was asked though the first had answered")
	}
}

func TestTheNextServerIsAskedWhenOneIsSilent(t *testing.T) {
	one, two := start(t, silence), start(t, records("example.com. 60 IN A 192.0.2.2"))
	f := forwarder(Options{Stagger: 20 * time.Millisecond, Try: 100 * time.Millisecond, Cache: CacheOptions{Entries: -1}}, one, two)
	if got := mustAsk(t, f, question("example.com.")); got != "192.0.2.2" {
		t.Errorf("got %s", got)
	}
}

func TestTheNextServerIsAskedAtOnceWhenOneRefuses(t *testing.T) {
	closed := &fake{addr: netip.MustParseAddrPort("127.0.0.1:1")} // nothing listens
	for name, first := range map[string]*fake{"SERVFAIL": start(t, rcode(dns.RcodeServerFailure)), "REFUSED": start(t, rcode(dns.RcodeRefused)), "closed port": closed} {
		f := forwarder(Options{Stagger: time.Hour}, first, start(t, records("example.com. 60 IN A 192.0.2.2")))
		if got := mustAsk(t, f, question("example.com.")); got != "192.0.2.2" {
			t.Errorf("%s: got %s", name, got)
		}
	}
}

func TestNXDOMAINIsAnAnswer(t *testing.T) {
	two := start(t, records("example.com. 60 IN A 192.0.2.2"))
	f := forwarder(Options{}, start(t, rcode(dns.RcodeNameError)), two)
	if got := mustAsk(t, f, question("example.com.")); got != "NXDOMAIN" || two.udp.Load() != 0 {
		t.Errorf("got %s, second server asked %d times", got, two.udp.Load())
	}
}

func TestWhenNoServerIsGoodTheLastRcodeCounts(t *testing.T) {
	f := forwarder(Options{}, start(t, rcode(dns.RcodeServerFailure)), start(t, rcode(dns.RcodeRefused)))
	if got := mustAsk(t, f, question("example.com.")); got != "REFUSED" && got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
}

func TestWithoutAnyServerThereIsAnError(t *testing.T) {
	f := New(Options{ResolvConf: filepath.Join(t.TempDir(), "missing")})
	if _, err := f.Exchange(t.Context(), question("example.com.")); !errors.Is(err, ErrNoServer) {
		t.Errorf("got %v", err)
	}
}

func TestAllSilentEndsInTime(t *testing.T) {
	f := forwarder(Options{Try: 100 * time.Millisecond, Stagger: 10 * time.Millisecond}, start(t, silence), start(t, silence))
	began := time.Now()
	if _, err := f.Exchange(t.Context(), question("example.com.")); err == nil || time.Since(began) > 2*time.Second {
		t.Errorf("error %v after %v", err, time.Since(began))
	}
}

func TestASilentServerIsAskedLastForAWhile(t *testing.T) {
	one, two := start(t, silence), start(t, records("example.com. 60 IN A 192.0.2.2"))
	one.sick.Store(true)
	f := forwarder(Options{Try: 300 * time.Millisecond, Stagger: time.Hour, MaxFails: 1, Policy: Sequential, Cache: CacheOptions{Entries: -1}}, one, two)
	mustAsk(t, f, question("example.com."))
	mustAsk(t, f, question("example.com."))
	if one.udp.Load() != 1 || two.udp.Load() != 2 {
		t.Errorf("silent server asked %d times, the other %d; want 1 and 2", one.udp.Load(), two.udp.Load())
	}
}

func TestATruncatedAnswerIsFetchedByTCP(t *testing.T) {
	s := start(t, func(tcp bool, q, a *dns.Msg) bool {
		a.Truncated = !tcp
		if tcp {
			return records("example.com. 60 IN A 192.0.2.9")(tcp, q, a)
		}
		return true
	})
	f := forwarder(Options{}, s)
	if got := mustAsk(t, f, question("example.com.")); got != "192.0.2.9" || s.tcp.Load() != 1 {
		t.Errorf("got %s, %d by TCP", got, s.tcp.Load())
	}
}

func TestWhenTCPFailsTheTruncatedAnswerKeepsItsBit(t *testing.T) {
	s := start(t, func(tcp bool, q, a *dns.Msg) bool {
		a.Truncated = true
		return !tcp && records("example.com. 60 IN A 192.0.2.9")(tcp, q, a)
	})
	m, err := forwarder(Options{Try: 200 * time.Millisecond}, s).Exchange(t.Context(), question("example.com."))
	if err != nil || !m.Truncated || len(m.Answer) != 1 {
		t.Errorf("got %v, %v", m, err)
	}
}

func TestAForgedAnswerIsPassedOver(t *testing.T) {
	s := start(t, func(_ bool, q, a *dns.Msg) bool {
		a.Question[0].Name = "other.example."
		return records("example.com. 60 IN A 192.0.2.66")(false, q, a)
	})
	if m, err := forwarder(Options{Try: 100 * time.Millisecond}, s).Exchange(t.Context(), question("example.com.")); err == nil {
		t.Errorf("got %v", m)
	}
}

func TestOurOwnAddressIsNeverAsked(t *testing.T) {
	s := start(t, records("example.com. 60 IN A 192.0.2.1"))
	any := netip.AddrPortFrom(netip.IPv4Unspecified(), s.addr.Port())
	for _, own := range []netip.AddrPort{s.addr, any} {
		f := forwarder(Options{Own: []netip.AddrPort{own}}, s)
		if _, err := f.Exchange(t.Context(), question("example.com.")); !errors.Is(err, ErrNoServer) || s.udp.Load() != 0 {
			t.Errorf("listening on %s: error %v, asked %d times", own, err, s.udp.Load())
		}
	}
}

func TestAServerThatSendsOurQuestionsBackIsNotAsked(t *testing.T) {
	var f *Forwarder
	s := start(t, records("example.com. 60 IN A 192.0.2.1"))
	f = forwarder(Options{}, s)
	name := f.loop.name(&server{addr: s.addr})
	f.servers.get(time.Now()) // the list is known
	if !f.Probed(strings.ToUpper(name)) {
		t.Fatal("the probe was not recognised")
	}
	if f.Probed("x"+name) || f.Probed("example.com.") {
		t.Error("a foreign name was taken for a probe")
	}
	if _, err := f.Exchange(t.Context(), question("example.com.")); !errors.Is(err, ErrNoServer) || s.udp.Load() != 0 {
		t.Errorf("error %v, asked %d times", err, s.udp.Load())
	}
	if diff := cmp.Diff([]netip.AddrPort{s.addr}, f.Looping(), cmpopts.EquateComparable(netip.AddrPort{})); diff != "" {
		t.Error(diff)
	}
}

func TestTheQuestionUpstreamOffersOurSizeAndKeepsDO(t *testing.T) {
	var seen *dns.Msg
	var mu sync.Mutex
	s := start(t, func(_ bool, q, a *dns.Msg) bool { mu.Lock(); seen = q.Copy(); mu.Unlock(); return true })
	f := forwarder(Options{Cache: CacheOptions{Entries: -1}}, s)
	q := question("example.com.")
	q.SetEdns0(512, true)
	q.IsEdns0().Option = append(q.IsEdns0().Option, &dns.EDNS0_COOKIE{Code: dns.EDNS0COOKIE, Cookie: "24a5ac1234567890"})
	mustAsk(t, f, q)
	mu.Lock()
	defer mu.Unlock()
	if opt := seen.IsEdns0(); opt == nil || opt.UDPSize() != 1232 || !opt.Do() || len(opt.Option) != 0 || !seen.RecursionDesired {
		t.Errorf("got %v", seen)
	}
}

func TestResolvConfIsReadAgainWhenItChanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), "resolv.conf")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("# comment\nsearch corp.example\nnameserver 192.0.2.1\nnameserver nonsense\nnameserver\nnameserver fd00::1%lo\nnameserver 192.0.2.1\noptions edns0\n")
	s := servers{o: Options{ResolvConf: path}.withDefaults(), probe: func(*server) {}}
	addrs := func(now time.Time) (out []string) {
		list, _ := s.get(now)
		for _, x := range list {
			out = append(out, x.addr.String())
		}
		return out
	}
	now := time.Now()
	if diff := cmp.Diff([]string{"192.0.2.1:53", "[fd00::1%lo]:53"}, addrs(now)); diff != "" {
		t.Error(diff)
	}
	write("nameserver 192.0.2.2\n")
	if got := addrs(now.Add(time.Second)); got[0] != "192.0.2.1:53" {
		t.Errorf("read again after a second: %v", got)
	}
	if diff := cmp.Diff([]string{"192.0.2.2:53"}, addrs(now.Add(recheck))); diff != "" {
		t.Error(diff)
	}
	os.Remove(path)
	if diff := cmp.Diff([]string{"192.0.2.2:53"}, addrs(now.Add(3*recheck))); diff != "" {
		t.Errorf("the last good list must stay: %s", diff)
	}
}

func TestAQuestionEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
	defer cancel()
	if _, err := forwarder(Options{}, start(t, silence)).Exchange(ctx, question("example.com.")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}
