// Package upstream asks other DNS servers about names that are not the cluster's: those of resolv.conf, by UDP and then
// TCP, several in turn, never this server itself. It owns its sockets and a cache; it knows nothing of the cluster.
package upstream

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/miekg/dns"
)

// The times of one question. A stub resolver gives up after 5 seconds.
const (
	DefaultTry     = 2 * time.Second
	DefaultStagger = 400 * time.Millisecond
	total          = 4500 * time.Millisecond
)

// ErrNoServer says that there is no server to ask.
var ErrNoServer = errors.New("upstream: no server to ask: resolv.conf names none, or only this server itself")

// Options say whom to ask.
type Options struct {
	Servers    []netip.AddrPort // empty = the nameservers of ResolvConf, read again when it changes
	ResolvConf string           // "" = /etc/resolv.conf
	Own        []netip.AddrPort // where we listen: never asked
	Try        time.Duration    // longest wait for one server; 0 = DefaultTry
	Stagger    time.Duration    // after so long the next server is asked as well; 0 = DefaultStagger
	CacheSize  int              // answers kept; 0 = DefaultCacheSize, negative = none

	// In runs a function in the network namespace in which sockets are opened; nil = this one.
	In func(func() error) error
}

func (o *Options) in(f func() error) error {
	if o.In == nil {
		return f()
	}
	return o.In(f)
}

// Forwarder asks upstream servers. It is safe for concurrent use.
type Forwarder struct {
	o       Options
	servers servers
	loop    loopProbe
	cache   *cache
}

// New makes a Forwarder; it opens nothing before the first question.
func New(o Options) *Forwarder {
	if o.ResolvConf == "" {
		o.ResolvConf = "/etc/resolv.conf"
	}
	if o.Try == 0 {
		o.Try = DefaultTry
	}
	if o.Stagger == 0 {
		o.Stagger = DefaultStagger
	}
	f := &Forwarder{o: o, loop: newLoopProbe(), cache: newCache(o.CacheSize)}
	f.servers = servers{o: o, probe: f.probe}
	return f
}

// Looping returns the servers that send our own questions back to us; they are not asked.
func (f *Forwarder) Looping() []netip.AddrPort {
	var out []netip.AddrPort
	list, _ := f.servers.get(time.Now())
	for _, s := range list {
		if s.loops.Load() {
			out = append(out, s.addr)
		}
	}
	return out
}

// request is what is sent upstream for a client's query: its question, with an EDNS size of our own.
func request(q *dns.Msg) *dns.Msg {
	out := &dns.Msg{Question: q.Question[:1]}
	out.Id = dns.Id()
	out.RecursionDesired, out.CheckingDisabled, out.AuthenticatedData = true, q.CheckingDisabled, q.AuthenticatedData
	opt := q.IsEdns0()
	out.SetEdns0(1232, opt != nil && opt.Do())
	return out
}

// attempt is what one server said.
type attempt struct {
	s   *server
	msg *dns.Msg
	err error
}

// ask asks one server after the other: the next one when one fails, or when it takes long; the first good answer
// counts. When none is good, the last answer of a server counts, else the error.
func (f *Forwarder) ask(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, total)
	defer cancel()
	all, probed := f.servers.get(time.Now())
	select {
	case <-probed:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	todo := inOrder(all, time.Now())
	if len(todo) == 0 {
		return nil, ErrNoServer
	}
	results, running := make(chan attempt, len(todo)), 0
	next := func() {
		if len(todo) > 0 {
			s := todo[0]
			todo, running = todo[1:], running+1
			go func() {
				m, err := f.exchange(ctx, s, request(q))
				results <- attempt{s, m, err}
			}()
		}
	}
	next()
	tick := time.NewTicker(f.o.Stagger)
	defer tick.Stop()
	var last *dns.Msg
	var errs []error
	for running > 0 {
		select {
		case <-tick.C:
			next()
		case a := <-results:
			running--
			if a.err == nil && good(a.msg) {
				a.s.down.Store(0)
				return a.msg, nil
			}
			if a.err == nil {
				last = a.msg
			} else if ctx.Err() == nil {
				a.s.fail(time.Now())
				errs = append(errs, a.err)
			}
			next()
		case <-ctx.Done():
			errs = append(errs, ctx.Err())
			running = 0
		}
	}
	if last != nil {
		return last, nil
	}
	return nil, errors.Join(errs...)
}

// good reports whether another server need not be asked.
func good(m *dns.Msg) bool { return m.Rcode == dns.RcodeSuccess || m.Rcode == dns.RcodeNameError }

// exchange asks one server by UDP, and by TCP when the answer does not fit. An answer cut short counts when TCP fails.
func (f *Forwarder) exchange(ctx context.Context, s *server, q *dns.Msg) (*dns.Msg, error) {
	ctx, cancel := context.WithTimeout(ctx, f.o.Try)
	defer cancel()
	m, err := f.once(ctx, "udp", s.addr, q)
	if err != nil || !m.Truncated {
		return m, err
	}
	if full, err := f.once(ctx, "tcp", s.addr, q); err == nil {
		return full, nil
	}
	return m, nil
}

// once sends q from a port of its own and waits for the answer with its number and question.
func (f *Forwarder) once(ctx context.Context, network string, to netip.AddrPort, q *dns.Msg) (*dns.Msg, error) {
	conn, err := f.dial(ctx, network, to)
	if err != nil {
		return nil, fmt.Errorf("upstream: %s %s: %w", network, to, err)
	}
	defer conn.Close()
	if deadline, ok := ctx.Deadline(); ok {
		conn.SetDeadline(deadline)
	}
	stop := context.AfterFunc(ctx, func() { conn.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	c := dns.Conn{Conn: conn, UDPSize: 4096}
	if err := c.WriteMsg(q); err != nil {
		return nil, fmt.Errorf("upstream: %s %s: %w", network, to, err)
	}
	for {
		m, err := c.ReadMsg()
		if err == nil && answers(m, q) {
			return m, nil
		}
		if err != nil && (m == nil || network == "tcp") { // m: a datagram that does not unpack; the true one may follow
			return nil, fmt.Errorf("upstream: %s %s: %w", network, to, err)
		}
	}
}

// answers reports whether m answers q; anybody can send a datagram.
func answers(m, q *dns.Msg) bool {
	return m.Id == q.Id && m.Response && len(m.Question) == 1 && m.Question[0].Qtype == q.Question[0].Qtype &&
		m.Question[0].Qclass == q.Question[0].Qclass && dns.CanonicalName(m.Question[0].Name) == dns.CanonicalName(q.Question[0].Name)
}
