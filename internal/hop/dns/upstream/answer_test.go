package upstream

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// client asks as the server does for a datagram that it has just read.
type client struct {
	q    answers.Query
	view *answers.View
	out  []byte
}

func newClient(t testing.TB) *client {
	t.Helper()
	v, err := answers.New(answers.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return &client{view: v, out: make([]byte, 0, 4096)}
}

// atHand returns the answer that is at hand at a time from now, or nil.
func (c *client) atHand(t testing.TB, f *Forwarder, q *dns.Msg, later time.Duration) *dns.Msg {
	t.Helper()
	msg, err := q.Pack()
	if err != nil {
		t.Fatal(err)
	}
	if _, r := c.view.Answer(&c.q, c.out, msg, false, 0); r.Kind != answers.Foreign {
		t.Fatalf("%v is not a name of the world", q.Question)
	}
	wire, rcode, ok := f.Answer(c.q.Asked(false), c.out, msg, rand.Uint32(), time.Now().Add(later))
	if !ok {
		return nil
	}
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil || m.Rcode != rcode {
		t.Fatalf("%v, rcode %d: %x", err, rcode, wire)
	}
	return m
}

func (c *client) ttl(t testing.TB, f *Forwarder, q *dns.Msg, later time.Duration) int {
	t.Helper()
	m := c.atHand(t, f, q, later)
	if m == nil || len(m.Answer) == 0 {
		return -1
	}
	return int(m.Answer[0].Header().Ttl)
}

func TestAnAnswerAtHandCountsDownAndEnds(t *testing.T) {
	f := forwarder(Options{Cache: CacheOptions{Prefetch: -1}}, start(t, records("example.com. 60 IN A 192.0.2.1")))
	c, q := newClient(t), question("eXample.com.")
	if c.atHand(t, f, q, 0) != nil {
		t.Fatal("an answer is at hand that nobody has given")
	}
	mustAsk(t, f, question("example.com."))
	for later, want := range map[time.Duration]int{0: 60, 25500 * time.Millisecond: 35, 59 * time.Second: 1, 61 * time.Second: -1} {
		if got := c.ttl(t, f, q, later); got != want {
			t.Errorf("after %v: %d seconds, want %d", later, got, want)
		}
	}
	if m := c.atHand(t, f, q, 0); m.Id != q.Id || m.Question[0].Name != "eXample.com." || m.Answer[0].Header().Name != "eXample.com." {
		t.Errorf("got %v", m)
	}
	do := question("example.com.")
	do.SetEdns0(1232, true)
	if c.atHand(t, f, do, 0) != nil {
		t.Error("the answer without DO serves one who wants DNSSEC records")
	}
}

func TestAClientMayBeToldTheWholeLife(t *testing.T) {
	f := forwarder(Options{Cache: CacheOptions{KeepTTL: true, Prefetch: -1}}, start(t, records("example.com. 60 IN A 192.0.2.1")))
	mustAsk(t, f, question("example.com."))
	if got := newClient(t).ttl(t, f, question("example.com."), 30*time.Second); got != 60 {
		t.Errorf("got %d", got)
	}
}

func TestAnsweringAllocatesNothing(t *testing.T) {
	f := forwarder(Options{}, start(t, records("example.com. 60 IN CNAME www.example.com.", "www.example.com. 60 IN A 192.0.2.1", "www.example.com. 60 IN A 192.0.2.2")))
	mustAsk(t, f, question("example.com."))
	c := newClient(t)
	q := question("example.com.")
	q.SetEdns0(1232, false)
	msg, _ := q.Pack()
	c.view.Answer(&c.q, c.out, msg, false, 0)
	now := time.Now().Add(3 * time.Second)
	if n := testing.AllocsPerRun(1000, func() {
		if _, _, ok := f.Answer(c.q.Asked(false), c.out, msg, 5, now); !ok {
			t.Fatal("no answer")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	c.view.Answer(&c.q, c.out, mustPack(question("nobody.example.")), false, 0)
	if n := testing.AllocsPerRun(1000, func() { f.Answer(c.q.Asked(false), c.out, msg, 5, now) }); n != 0 {
		t.Errorf("a miss: %v allocations", n)
	}
}

func mustPack(m *dns.Msg) []byte {
	b, err := m.Pack()
	if err != nil {
		panic(err)
	}
	return b
}

func TestAPopularAnswerIsFetchedBeforeItsEnd(t *testing.T) {
	s := start(t, records("example.com. 60 IN A 192.0.2.1"))
	f := forwarder(Options{}, s)
	c, q := newClient(t), question("example.com.")
	mustAsk(t, f, q)
	for range 5 {
		c.atHand(t, f, q, 30*time.Second)
	}
	if s.udp.Load() != 1 {
		t.Fatalf("asked %d times in the middle of its life", s.udp.Load())
	}
	if got := c.ttl(t, f, q, 55*time.Second); got != 5 {
		t.Errorf("got %d", got)
	}
	eventually(t, func() bool { return s.udp.Load() == 2 })
	unpopular := forwarder(Options{}, s)
	mustAsk(t, unpopular, q)
	c.atHand(t, unpopular, q, 55*time.Second)
	time.Sleep(20 * time.Millisecond)
	if s.udp.Load() != 3 {
		t.Errorf("an answer used once was fetched again: %d questions", s.udp.Load())
	}
}

func eventually(t *testing.T, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(3 * time.Second); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it did not come to pass in 3 seconds")
		}
	}
}

func TestAFailureIsRememberedForAWhile(t *testing.T) {
	s := start(t, rcode(dns.RcodeServerFailure))
	f := forwarder(Options{}, s)
	for range 10 {
		if got := mustAsk(t, f, question("example.com.")); got != "SERVFAIL" {
			t.Errorf("got %s", got)
		}
	}
	if s.udp.Load() != 1 {
		t.Errorf("asked %d times", s.udp.Load())
	}
	c, q := newClient(t), question("example.com.")
	if m := c.atHand(t, f, q, 900*time.Millisecond); m == nil || m.Rcode != dns.RcodeServerFailure {
		t.Errorf("got %v", m)
	}
	if c.atHand(t, f, q, 1100*time.Millisecond) != nil {
		t.Error("a first failure is remembered for more than a second")
	}
	s.answer.Store(records("example.com. 60 IN A 192.0.2.1"))
	time.Sleep(1100 * time.Millisecond)
	if got := mustAsk(t, f, q); got != "192.0.2.1" {
		t.Errorf("afterwards: got %s", got)
	}
	none := forwarder(Options{Cache: CacheOptions{Failures: -1}}, start(t, rcode(dns.RcodeServerFailure)))
	mustAsk(t, none, q)
	if c.atHand(t, none, q, 0) != nil {
		t.Error("a failure is remembered though it should not")
	}
}

func TestFailuresInARowAreRememberedLonger(t *testing.T) {
	f := New(Options{})
	k, _ := keyOf(question("example.com."), make([]byte, 256))
	now := int64(0)
	for i, want := range []time.Duration{1, 2, 4, 5, 5} {
		if _, err := f.land(k, nil, ErrBusy, now); err == nil {
			t.Fatal("no error")
		}
		e := f.cache.Get(&k)
		if got := time.Duration(e.Ends - now); got != want*time.Second {
			t.Errorf("failure %d: remembered for %v, want %v", i+1, got, want*time.Second)
		}
		now = e.Ends
	}
}

func TestAnOldAnswerServesAtOnceWhileServersFail(t *testing.T) {
	s := start(t, records("example.com. 1 IN A 192.0.2.1"))
	f := forwarder(Options{Try: 50 * time.Millisecond}, s)
	c, q := newClient(t), question("example.com.")
	mustAsk(t, f, q)
	s.answer.Store(rcode(dns.RcodeServerFailure))
	if c.atHand(t, f, q, 1500*time.Millisecond) != nil {
		t.Fatal("an old answer serves before anybody was asked")
	}
	time.Sleep(1100 * time.Millisecond)
	mustAsk(t, f, q) // the servers fail now
	if got := c.ttl(t, f, q, 0); got != staleTTL {
		t.Errorf("got %d", got)
	}
}

func TestAnOldAnswerMayServeBeforeTheServersAreAsked(t *testing.T) {
	s := start(t, records("example.com. 1 IN A 192.0.2.1"))
	f := forwarder(Options{Cache: CacheOptions{StaleAtOnce: true, Prefetch: -1}}, s)
	c, q := newClient(t), question("example.com.")
	mustAsk(t, f, q)
	if got := c.ttl(t, f, q, time.Minute); got != staleTTL {
		t.Errorf("got %d", got)
	}
	eventually(t, func() bool { return s.udp.Load() == 2 })
	if c.atHand(t, f, q, 2*time.Hour) != nil {
		t.Error("it serves for ever")
	}
}

func TestNothingServesAfterItsEndWhenThatIsOff(t *testing.T) {
	s := start(t, records("example.com. 1 IN A 192.0.2.1"))
	f := forwarder(Options{Cache: CacheOptions{Stale: -1}}, s)
	mustAsk(t, f, question("example.com."))
	s.answer.Store(rcode(dns.RcodeServerFailure))
	time.Sleep(1100 * time.Millisecond)
	if got := mustAsk(t, f, question("example.com.")); got != "SERVFAIL" {
		t.Errorf("got %s", got)
	}
}

func TestALiveServerOverrulesWhatIsOld(t *testing.T) {
	for name, answer := range map[string]answerFunc{
		"NXDOMAIN":  rcode(dns.RcodeNameError),
		"192.0.2.2": records("example.com. 0 IN A 192.0.2.2"),
	} {
		s := start(t, records("example.com. 1 IN A 192.0.2.1"))
		f := forwarder(Options{}, s)
		mustAsk(t, f, question("example.com."))
		s.answer.Store(answer)
		time.Sleep(1100 * time.Millisecond)
		if got := mustAsk(t, f, question("example.com.")); got != name {
			t.Errorf("%s: got %s", name, got)
		}
		s.answer.Store(rcode(dns.RcodeServerFailure))
		time.Sleep(10 * time.Millisecond)
		if m, err := f.Exchange(t.Context(), question("example.com.")); err == nil && len(m.Answer) == 1 && m.Answer[0].(*dns.A).A.String() == "192.0.2.1" {
			t.Errorf("%s: the contradicted answer came back", name)
		}
	}
}

func TestOnlySomeNamesAreKept(t *testing.T) {
	s := start(t, func(_ bool, q, a *dns.Msg) bool {
		if strings.HasPrefix(q.Question[0].Name, "no") {
			a.Rcode = dns.RcodeNameError
			return records()(false, q, a)
		}
		return records(q.Question[0].Name+" 60 IN A 192.0.2.1")(false, q, a)
	})
	f := forwarder(Options{Cache: CacheOptions{Zones: []string{"example."}, NoSuccess: []string{"s.example."}, NoDenial: []string{"d.example."}}}, s)
	c := newClient(t)
	for name, want := range map[string]bool{
		"a.example.": true, "no.example.": true, "a.other.": false, "a.s.example.": false, "no.s.example.": true, "a.d.example.": true, "no.d.example.": false,
	} {
		mustAsk(t, f, question(name))
		if got := c.atHand(t, f, question(name), 0) != nil; got != want {
			t.Errorf("%s is kept: %v", name, got)
		}
	}
}

// A Pod's search list costs one question for each domain that is not the cluster's, and only the first time.
func TestASearchListIsWalkedUpstreamOnce(t *testing.T) {
	s := start(t, func(_ bool, q, a *dns.Msg) bool {
		if q.Question[0].Name == "example.com." {
			return records("example.com. 60 IN A 192.0.2.1")(false, q, a)
		}
		a.Rcode = dns.RcodeNameError
		rr, _ := dns.NewRR(". 86400 IN SOA a.root. nstld. 1 1800 900 604800 86400")
		a.Ns = []dns.RR{rr}
		return true
	})
	f := forwarder(Options{}, s)
	for range 5 {
		for _, name := range []string{"example.com.corp.internal.", "example.com."} {
			mustAsk(t, f, question(name))
		}
	}
	if s.udp.Load() != 2 {
		t.Errorf("five walks cost %d questions, want 2", s.udp.Load())
	}
}

func TestAFloodOfRandomNamesIsBoundedInMemory(t *testing.T) {
	var n atomic.Int64
	s := start(t, func(_ bool, q, a *dns.Msg) bool {
		n.Add(1)
		a.Rcode = dns.RcodeNameError
		rr, _ := dns.NewRR("example. 3600 IN SOA ns.example. h.example. 1 2 3 4 3600")
		a.Ns = []dns.RR{rr}
		return true
	})
	f := forwarder(Options{MaxConcurrent: 50, Cache: CacheOptions{Entries: 1000}}, s)
	flood := func(from, to int) {
		sem := make(chan struct{}, 100)
		for i := from; i < to; i++ {
			sem <- struct{}{}
			go func() {
				defer func() { <-sem }()
				_, _ = f.Exchange(t.Context(), question(fmt.Sprintf("r%d.%d.example.", i, rand.Uint64())))
			}()
		}
		for range cap(sem) {
			sem <- struct{}{}
		}
	}
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	flood(0, 3000)
	before := heap()
	flood(3000, 12_000)
	if after := heap(); after > before+2<<20 {
		t.Errorf("the heap grew from %d to %d bytes", before, after)
	}
	if stats := f.cache.Stats(); stats.Entries > 1000 || stats.Bytes > 1000<<10 {
		t.Errorf("%+v", stats)
	}
	if f.counts.rejected.Load() == 0 {
		t.Error("a hundred askers were never too many for fifty questions at a time")
	}
	if len(f.flights.open) != 0 {
		t.Errorf("%d questions are still being asked", len(f.flights.open))
	}
}
