package upstream

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/miekg/dns"
)

// ErrNoServer says that there is no server to ask.
var ErrNoServer = errors.New("upstream: no server to ask: resolv.conf names none, or only this server itself")

var errAllDown = errors.New("upstream: no server answers at present")

// attempt is what one server said.
type attempt struct {
	s   *server
	msg *dns.Msg
	err error
}

// inquiry is one question on its way to several servers.
type inquiry struct {
	f       *Forwarder
	q       *dns.Msg
	order   []*server // whom to ask, in turn, and then once more those that stay silent
	next    int
	running int
	began   map[*server]time.Time // of the last attempt
	done    map[*server]bool      // those that have answered or failed
	results chan attempt
}

// rounds is how often a server that stays silent is asked: a datagram may be lost.
const rounds = 2

// ask asks one server after the other: the next one when one fails, or when it takes longer than it should; the first good
// answer counts. When none is good, the last answer of a server counts, else the error.
func (f *Forwarder) ask(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	all, probed := f.servers.get(time.Now())
	select {
	case <-probed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	order, up := f.inOrder(all)
	switch {
	case len(order) == 0:
		return nil, ErrNoServer
	case up == 0 && f.o.FailFast:
		return nil, errAllDown
	}
	i := &inquiry{f: f, q: q, order: order, began: map[*server]time.Time{}, done: map[*server]bool{}, results: make(chan attempt, rounds*len(order))}
	return i.run(ctx)
}

func (i *inquiry) run(ctx context.Context) (*dns.Msg, error) {
	i.start(ctx)
	wait := time.NewTimer(i.f.hedgeAfter(i.order))
	defer wait.Stop()
	var last *dns.Msg
	var errs []error
	for i.running > 0 {
		select {
		case <-wait.C:
			if i.start(ctx) && len(i.began) > 1 {
				i.f.counts.hedged.Add(1)
				i.f.hedges.spend()
			}
			wait.Reset(i.f.o.Stagger)
		case a := <-i.results:
			i.running--
			if a.err == nil && good(a.msg.Rcode) && !slices.Contains(i.f.o.Failover, a.msg.Rcode) {
				i.slower(a.s)
				return a.msg, nil
			}
			if a.err == nil {
				last = a.msg
			} else if ctx.Err() == nil {
				errs = append(errs, a.err)
			}
			i.done[a.s] = true
			i.start(ctx)
		case <-ctx.Done():
			return i.verdict(last, append(errs, ctx.Err()))
		}
	}
	return i.verdict(last, errs)
}

func (i *inquiry) verdict(last *dns.Msg, errs []error) (*dns.Msg, error) {
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(errs...)
}

// start asks the next server that has not answered; it reports whether there was one.
func (i *inquiry) start(ctx context.Context) bool {
	for ; i.next < rounds*len(i.order); i.next++ {
		s := i.order[i.next%len(i.order)]
		if i.done[s] {
			continue
		}
		i.next++
		i.running++
		i.began[s] = time.Now()
		go func() {
			m, err := i.f.exchange(ctx, s, i.q)
			i.results <- attempt{s, m, err}
		}()
		return true
	}
	return false
}

// slower tells the servers that were asked before the winner and are still silent that they take at least so long.
func (i *inquiry) slower(winner *server) {
	for s, began := range i.began {
		if s != winner && !i.done[s] {
			s.atLeast(time.Since(began))
		}
	}
}

// good reports whether another server need not be asked.
func good(rcode int) bool { return rcode == dns.RcodeSuccess || rcode == dns.RcodeNameError }

// exchange asks one server, and learns from it how fast and how well it is.
func (f *Forwarder) exchange(ctx context.Context, s *server, q *dns.Msg) (*dns.Msg, error) {
	try, cancel := context.WithTimeout(ctx, f.o.Try)
	defer cancel()
	began := time.Now()
	m, err := s.link.Exchange(try, q)
	if err == nil && m.Rcode == dns.RcodeFormatError && q.IsEdns0() != nil {
		plain := *q // a server from before EDNS (RFC 6891 7)
		plain.Extra = nil
		m, err = s.link.Exchange(try, &plain)
	}
	took := time.Since(began)
	switch {
	case err == nil:
		s.observe(took)
		s.fails.Store(0)
		f.o.Metrics.exchanged(s.addr, m.Rcode, took)
	case ctx.Err() == nil: // not because another server was faster
		s.atLeast(took)
		f.failed(s)
		f.o.Metrics.exchanged(s.addr, -1, took)
	}
	return m, err
}
