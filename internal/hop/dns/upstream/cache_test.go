package upstream

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/upstream/cache"
	"github.com/podway/podway/internal/hop/dns/upstream/packet"
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

func TestManyWhoAskTheSameAskOnce(t *testing.T) {
	release := make(chan struct{})
	s := start(t, func(_ bool, q, a *dns.Msg) bool {
		<-release
		return records("example.com. 60 IN A 192.0.2.1")(false, q, a)
	})
	f := forwarder(Options{Stagger: time.Minute, Try: time.Minute}, s)
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
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(50 * time.Millisecond) { // the servers are asked again beside
		if got := mustAsk(t, f, question("example.com.")); got == "NXDOMAIN" {
			break
		} else if time.Now().After(end) {
			t.Fatalf("NXDOMAIN from a live server: got %s", got)
		}
	}
}

func TestAClientDoesNotWaitLongForAServerWhenThereIsAnOldAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := New(Options{})
		m := new(dns.Msg).SetReply(question("example.com."))
		records("example.com. 60 IN A 192.0.2.1")(false, nil, m)
		a, err := packet.New(m)
		if err != nil {
			t.Fatal(err)
		}
		k, _ := keyOf(m, make([]byte, 256))
		f.cache.Put(&cache.Entry{Key: k, Answer: a, Gone: int64(time.Hour)})
		f.flights.open[flightKey{string(k.Name), k.Type, k.DO, k.CD}] = &flight{done: make(chan struct{})} // asked by another, without end
		began := time.Now()
		m, err = f.Exchange(t.Context(), question("example.com."))
		if err != nil || len(m.Answer) != 1 || m.Answer[0].Header().Ttl != staleTTL || time.Since(began) != patience {
			t.Errorf("got %v, %v after %v", m, err, time.Since(began))
		}
	})
}
