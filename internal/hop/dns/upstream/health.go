package upstream

import (
	"context"
	"log/slog"
	"time"

	"github.com/miekg/dns"
)

// The times of checks on a server that failed.
const (
	checkWait  = time.Second
	checkEvery = 500 * time.Millisecond
	checkMost  = 5 * time.Second
)

// failed counts a failure and has the server checked in the background until it answers.
func (f *Forwarder) failed(s *server) {
	if n := s.fails.Add(1); f.o.MaxFails < 0 {
		return
	} else if int(n) == f.o.MaxFails {
		slog.Warn("upstream DNS server does not answer: asked last", "hop", "dns", "server", s.addr)
	}
	if s.checking.CompareAndSwap(false, true) {
		go f.check(f.background(), s)
	}
}

// check asks a server for the name servers of a zone until it answers anything: it is alive then.
func (f *Forwarder) check(ctx context.Context, s *server) {
	defer s.checking.Store(false)
	q := new(dns.Msg).SetQuestion(f.o.Check.Name, dns.TypeNS)
	q.RecursionDesired = !f.o.Check.NoRecursion
	for pause := f.o.Check.Every; ; pause = min(2*pause, max(checkMost, f.o.Check.Every)) {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		if s.fails.Load() == 0 || s.gone.Load() {
			return
		}
		try, cancel := context.WithTimeout(ctx, checkWait)
		_, err := s.link.Exchange(try, q)
		cancel()
		if err == nil {
			if n := s.fails.Swap(0); int(n) >= f.o.MaxFails {
				slog.Info("upstream DNS server answers again", "hop", "dns", "server", s.addr)
			}
			return
		}
		s.fails.Add(1)
		f.o.Metrics.unhealthy(s.addr)
	}
}
