package upstream

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"
)

func TestAnAnswerIsKeptForItsTime(t *testing.T) {
	s := start(t, records("example.com. 60 IN A 192.0.2.1"))
	f := forwarder(Options{}, s)
	for range 3 {
		mustAsk(t, f, question("eXample.com."))
	}
	if s.udp.Load() != 1 {
		t.Errorf("asked %d times", s.udp.Load())
	}
	q := question("example.com.")
	q.CheckingDisabled = true
	mustAsk(t, f, q)
	if s.udp.Load() != 2 {
		t.Error("the answer to another question (CD) was used")
	}
}

func TestTheTimeToLiveCountsDown(t *testing.T) {
	now := time.Now()
	rr, _ := dns.NewRR("example.com. 60 IN A 192.0.2.1")
	e := entry{msg: &dns.Msg{Answer: []dns.RR{rr}}, stored: now}
	if got := e.copy(now.Add(25 * time.Second)).Answer[0].Header().Ttl; got != 35 {
		t.Errorf("got %d", got)
	}
	if got := e.stale().Answer[0].Header().Ttl; got != staleTTL {
		t.Errorf("stale: got %d", got)
	}
	if rr.Header().Ttl != 60 {
		t.Error("the stored answer was written to")
	}
}

func TestHowLongAnAnswerIsKept(t *testing.T) {
	rr := func(s string) dns.RR {
		out, err := dns.NewRR(s)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	soa := rr("example.com. 300 IN SOA ns. h. 1 2 3 4 20")
	for name, c := range map[string]struct {
		msg  dns.Msg
		want time.Duration
	}{
		"the least of its records":         {dns.Msg{Answer: []dns.RR{rr("x. 60 IN A 1.1.1.1"), rr("x. 30 IN A 1.1.1.2")}}, 30 * time.Second},
		"an hour at most":                  {dns.Msg{Answer: []dns.RR{rr("x. 86400 IN A 1.1.1.1")}}, time.Hour},
		"not at all when a record says so": {dns.Msg{Answer: []dns.RR{rr("x. 0 IN A 1.1.1.1")}}, 0},
		"no data as the SOA says":          {dns.Msg{Ns: []dns.RR{soa}}, 20 * time.Second},
		"NXDOMAIN as the SOA says":         {dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}, Ns: []dns.RR{soa}}, 20 * time.Second},
		"NXDOMAIN without SOA not at all":  {dns.Msg{MsgHdr: dns.MsgHdr{Rcode: dns.RcodeNameError}}, 0},
	} {
		if got := lifetime(&c.msg); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}

func TestManyWhoAskTheSameAskOnce(t *testing.T) {
	release := make(chan struct{})
	s := start(t, func(_ bool, q, a *dns.Msg) bool {
		<-release
		return records("example.com. 60 IN A 192.0.2.1")(false, q, a)
	})
	f := forwarder(Options{}, s)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if m, err := f.Exchange(t.Context(), question("example.com.")); err != nil || len(m.Answer) != 1 {
				t.Errorf("got %v, %v", m, err)
			}
		})
	}
	time.Sleep(50 * time.Millisecond)
	close(release)
	wg.Wait()
	if s.udp.Load() != 1 {
		t.Errorf("asked %d times", s.udp.Load())
	}
}

func TestAnOldAnswerServesWhenTheServersFail(t *testing.T) {
	s := start(t, records("example.com. 1 IN A 192.0.2.1"))
	f := forwarder(Options{Try: 100 * time.Millisecond}, s)
	mustAsk(t, f, question("example.com."))
	time.Sleep(1100 * time.Millisecond)
	for name, answer := range map[string]answerFunc{"silence": silence, "SERVFAIL": rcode(dns.RcodeServerFailure)} {
		s.answer.Store(answer)
		m, err := f.Exchange(t.Context(), question("example.com."))
		if err != nil || len(m.Answer) != 1 || m.Answer[0].Header().Ttl != staleTTL {
			t.Errorf("%s: got %v, %v", name, m, err)
		}
	}
	s.answer.Store(rcode(dns.RcodeNameError))
	if got := mustAsk(t, f, question("example.com.")); got != "NXDOMAIN" {
		t.Errorf("NXDOMAIN from a live server: got %s", got)
	}
}

func TestAClientDoesNotWaitLongForAServerWhenThereIsAnOldAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{})
		rr, _ := dns.NewRR("example.com. 60 IN A 192.0.2.1")
		now := time.Now()
		k := keyOf(question("example.com."))
		f.cache.entries[k] = entry{&dns.Msg{Answer: []dns.RR{rr}}, now, now}
		f.cache.flights[k] = &flight{done: make(chan struct{})} // asked by another, without end
		m, err := f.Exchange(t.Context(), question("example.com."))
		if err != nil || len(m.Answer) != 1 || time.Since(now) != patience {
			t.Errorf("got %v, %v after %v", m, err, time.Since(now))
		}
	})
}

func TestTheCacheKeepsItsSize(t *testing.T) {
	var n atomic.Int32
	s := start(t, func(_ bool, q, a *dns.Msg) bool {
		n.Add(1)
		return records(q.Question[0].Name+" 60 IN A 192.0.2.1")(false, q, a)
	})
	f := forwarder(Options{CacheSize: 50}, s)
	for i := range 200 {
		mustAsk(t, f, question(fmt.Sprintf("n%d.example.", i)))
	}
	if got := len(f.cache.entries); got > 50 || got < 40 || n.Load() != 200 {
		t.Errorf("%d entries, %d questions", got, n.Load())
	}
}
