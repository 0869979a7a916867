package upstream

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
)

// slow answers after a time.
func slow(d time.Duration, lines ...string) answerFunc {
	return func(tcp bool, q, a *dns.Msg) bool {
		time.Sleep(d)
		return records(lines...)(tcp, q, a)
	}
}

func TestTheFastestServerIsAskedFirst(t *testing.T) {
	one, two := start(t, slow(80*time.Millisecond, "x. 0 IN A 192.0.2.1")), start(t, slow(time.Millisecond, "x. 0 IN A 192.0.2.2"))
	f := forwarder(Options{Cache: CacheOptions{Entries: -1}}, one, two)
	for range 100 {
		mustAsk(t, f, question("x."))
	}
	if two.udp.Load() < 75 || one.udp.Load() < 1 {
		t.Errorf("the slow server was asked %d times, the fast one %d", one.udp.Load(), two.udp.Load())
	}
}

func TestASlowAnswerIsHedged(t *testing.T) {
	one, two := start(t, records("x. 0 IN A 192.0.2.1")), start(t, records("x. 0 IN A 192.0.2.2"))
	f := forwarder(Options{Policy: Sequential, Stagger: 3 * time.Second, Try: 4 * time.Second, Cache: CacheOptions{Entries: -1}, MaxFails: -1}, one, two)
	for range 50 {
		mustAsk(t, f, question("x."))
	}
	if two.udp.Load() > 5 {
		t.Errorf("the second server was asked %d times though the first is quick", two.udp.Load())
	}
	one.answer.Store(silence)
	began := time.Now()
	if got := mustAsk(t, f, question("x.")); got != "192.0.2.2" || time.Since(began) > 2*time.Second {
		t.Errorf("got %s after %v", got, time.Since(began))
	}
	if f.counts.hedged.Load() == 0 {
		t.Error("it was not counted")
	}
}

func TestSecondQuestionsAreBounded(t *testing.T) {
	var b budget
	if b.allows() {
		t.Error("nothing has been earned")
	}
	for range 10_000 {
		b.earn()
	}
	n := 0
	for ; b.allows(); n++ {
		b.spend()
	}
	if n != mostTenths/10 {
		t.Errorf("%d second questions in hand", n)
	}
}

// names are the servers in an order, by the last part of their addresses.
func names(list []*server) (out []byte) {
	for _, s := range list {
		out = append(out, 'a'+s.addr.Addr().As4()[3])
	}
	return out
}

func TestPoliciesChooseWhoIsFirst(t *testing.T) {
	var addrs []netip.AddrPort
	for i := range 3 {
		addrs = append(addrs, netip.AddrPortFrom(netip.AddrFrom4([4]byte{192, 0, 2, byte(i)}), 53))
	}
	firsts := func(p Policy) map[byte]int {
		f := New(Options{Policy: p, Servers: At(addrs...)})
		var list []*server
		for _, s := range f.o.Servers {
			list = append(list, newServer(s, &f.o))
		}
		list[0].rtt.Store(int64(300 * time.Millisecond))
		list[1].rtt.Store(int64(time.Millisecond))
		list[2].rtt.Store(int64(20 * time.Millisecond))
		took := map[byte]time.Duration{'a': 300 * time.Millisecond, 'b': time.Millisecond, 'c': 20 * time.Millisecond}
		out := map[byte]int{}
		for range 3000 {
			order, up := f.inOrder(list)
			if len(order) != 3 || up != 3 {
				t.Fatalf("%d of 3 servers, %d up", len(order), up)
			}
			out[names(order)[0]]++
			order[0].observe(took[names(order)[0]])
		}
		list[1].fails.Store(DefaultMaxFails)
		if order, up := f.inOrder(list); up != 2 || names(order)[2] != 'b' {
			t.Errorf("policy %d: the one that fails stands at %s", p, names(order))
		}
		list[0].loops.Store(true)
		if order, _ := f.inOrder(list); len(order) != 2 {
			t.Errorf("policy %d: one that loops is asked: %s", p, names(order))
		}
		return out
	}
	if n := firsts(Sequential); n['a'] != 3000 {
		t.Errorf("sequential: %v", n)
	}
	if n := firsts(RoundRobin); n['a'] != 1000 || n['b'] != 1000 || n['c'] != 1000 {
		t.Errorf("round_robin: %v", n)
	}
	if n := firsts(Random); n['a'] < 800 || n['b'] < 800 || n['c'] < 800 {
		t.Errorf("random: %v", n)
	}
	if n := firsts(Fastest); n['b'] < 2700 || n['a'] == 0 || n['c'] == 0 {
		t.Errorf("fastest: %v", n)
	}
}

func TestOneLateAnswerIsNotHeldAgainstAServerForEver(t *testing.T) {
	f := New(Options{Servers: At(netip.MustParseAddrPort("192.0.2.1:53"), netip.MustParseAddrPort("192.0.2.2:53"))})
	quick, slow := newServer(f.o.Servers[0], &f.o), newServer(f.o.Servers[1], &f.o)
	quick.observe(time.Second) // its first answer was late
	slow.observe(50 * time.Millisecond)
	quickFirst := 0
	for range 1000 {
		if order, _ := f.inOrder([]*server{quick, slow}); order[0] == quick {
			quick.observe(time.Millisecond)
			quickFirst++
		} else {
			slow.observe(50 * time.Millisecond)
		}
	}
	if quickFirst < 600 {
		t.Errorf("the quick server was asked first %d times of 1000", quickFirst)
	}
}

func TestRoundTripsAreSmoothed(t *testing.T) {
	var s server
	for range 50 {
		s.observe(10 * time.Millisecond)
	}
	if got := time.Duration(s.rtt.Load()); got != 10*time.Millisecond {
		t.Errorf("got %v", got)
	}
	s.observe(90 * time.Millisecond)
	if got := time.Duration(s.rtt.Load()); got != 20*time.Millisecond {
		t.Errorf("one late answer: %v", got)
	}
	s.atLeast(time.Millisecond)
	if got := time.Duration(s.rtt.Load()); got != 20*time.Millisecond {
		t.Errorf("at least less than usual: %v", got)
	}
}

func TestAServerThatAnswersAgainIsUsedAgain(t *testing.T) {
	one, two := start(t, silence), start(t, records("x. 0 IN A 192.0.2.2"))
	one.sick.Store(true)
	f := forwarder(Options{Policy: Sequential, MaxFails: 1, Try: 300 * time.Millisecond, Cache: CacheOptions{Entries: -1},
		Check: config.HealthCheck{Every: 20 * time.Millisecond}}, one, two)
	defer f.Close()
	mustAsk(t, f, question("x."))
	s := f.servers.now()[0]
	eventually(t, func() bool { return s.fails.Load() >= 1 })
	one.answer.Store(records("x. 0 IN A 192.0.2.1"))
	if got := mustAsk(t, f, question("x.")); got != "192.0.2.2" {
		t.Errorf("before a check was answered: got %s", got)
	}
	one.sick.Store(false)
	eventually(t, func() bool { return s.fails.Load() == 0 })
	if got := mustAsk(t, f, question("x.")); got != "192.0.2.1" {
		t.Errorf("afterwards: got %s", got)
	}
}

func TestChecksEndWithTheForwarder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{Servers: At(netip.MustParseAddrPort("192.0.2.1:53"))})
		s := newServer(f.o.Servers[0], &f.o)
		f.failed(s)
		f.Close()
		synctest.Wait()
		if s.checking.Load() {
			t.Error("a check goes on")
		}
	})
}

func TestWhileAllServersFailNoneIsAskedWhenSoSet(t *testing.T) {
	one := start(t, records("x. 0 IN A 192.0.2.1"))
	f := forwarder(Options{FailFast: true, Cache: CacheOptions{Entries: -1}}, one)
	mustAsk(t, f, question("x."))
	f.servers.now()[0].fails.Store(DefaultMaxFails)
	if _, err := f.Exchange(t.Context(), question("x.")); err == nil || one.udp.Load() != 1 {
		t.Errorf("error %v, asked %d times", err, one.udp.Load())
	}
}

func TestMoreRcodesMaySendAQuestionOn(t *testing.T) {
	one, two := start(t, rcode(dns.RcodeNameError)), start(t, records("x. 0 IN A 192.0.2.2"))
	f := forwarder(Options{Policy: Sequential, Failover: []int{dns.RcodeNameError}}, one, two)
	if got := mustAsk(t, f, question("x.")); got != "192.0.2.2" {
		t.Errorf("got %s", got)
	}
	two.answer.Store(rcode(dns.RcodeNameError))
	if got := mustAsk(t, f, question("y.")); got != "NXDOMAIN" {
		t.Errorf("when all say so: got %s", got)
	}
}

func TestAServerFromBeforeEDNSIsAskedWithout(t *testing.T) {
	s := start(t, func(tcp bool, q, a *dns.Msg) bool {
		if q.IsEdns0() != nil {
			a.Rcode = dns.RcodeFormatError
			return true
		}
		return records("x. 60 IN A 192.0.2.1")(tcp, q, a)
	})
	if got := mustAsk(t, forwarder(Options{}, s), question("x.")); got != "192.0.2.1" {
		t.Errorf("got %s", got)
	}
}

func TestALostDatagramIsSentAgain(t *testing.T) {
	lost := true
	s := start(t, func(tcp bool, q, a *dns.Msg) bool {
		if lost {
			lost = false
			return false
		}
		return records("x. 60 IN A 192.0.2.1")(tcp, q, a)
	})
	f := forwarder(Options{Stagger: 30 * time.Millisecond}, s)
	began := time.Now()
	if got := mustAsk(t, f, question("x.")); got != "192.0.2.1" || time.Since(began) > time.Second {
		t.Errorf("got %s after %v", got, time.Since(began))
	}
}

func TestARetiredForwarderAnswersWhatItWasAsked(t *testing.T) {
	s := start(t, slow(100*time.Millisecond, "x. 60 IN A 192.0.2.1"))
	f := forwarder(Options{}, s)
	answered := make(chan string)
	go func() {
		m, err := f.Exchange(t.Context(), question("x."))
		if err != nil {
			answered <- err.Error()
			return
		}
		answered <- m.Answer[0].(*dns.A).A.String()
	}()
	eventually(t, func() bool { return s.udp.Load() == 1 })
	f.Retire()
	if got := <-answered; got != "192.0.2.1" {
		t.Errorf("got %s", got)
	}
}
