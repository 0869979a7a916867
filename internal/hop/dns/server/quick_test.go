package server

import (
	"testing"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// cachedTeapot answers questions for one name with a bare header and question.
func cachedTeapot(a answers.Asked, dst, msg []byte, _ uint32, _ time.Time) ([]byte, int, bool) {
	if string(a.Name) != "\x06teapot\x07example\x00" {
		return nil, 0, false
	}
	out := append(dst[:0], msg[:a.End]...)
	out[2], out[3], out[11] = 0x80, dns.RcodeNameError, 0
	return out, dns.RcodeNameError, true
}

func TestAnAnswerAtHandIsUsedBeforeAnybodyIsAsked(t *testing.T) {
	_, addr := start(t, Options{Upstream: world, Cached: cachedTeapot})
	for _, network := range []string{"udp", "tcp"} {
		for name, want := range map[string]string{"Teapot.example.": "NXDOMAIN", "example.com.": "NOERROR A 192.0.2.1", "cart.shop.svc.cluster.local.": "NOERROR aa A 10.96.0.7"} {
			if got := summary(ask(t, network, addr, new(dns.Msg).SetQuestion(name, dns.TypeA))); got != want {
				t.Errorf("%s %s: got %s, want %s", network, name, got, want)
			}
		}
	}
}

func TestAnsweringWhereItWasReadAllocatesNothing(t *testing.T) {
	v := shop(t)
	s := New(Options{View: func() *answers.View { return v }, Cached: cachedTeapot})
	var q answers.Query
	out, now := make([]byte, 0, maxQuery), time.Now()
	for _, name := range []string{"teapot.example.", "cart.shop.svc.cluster.local."} {
		msg, err := new(dns.Msg).SetQuestion(name, dns.TypeA).Pack()
		if err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() {
			if _, _, ok := s.quick(&q, out, msg, false, now); !ok {
				t.Fatal("not answered")
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
