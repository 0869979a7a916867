package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// DefaultCacheSize is how many answers are kept.
const DefaultCacheSize = 10_000

// The times of the cache.
const (
	maxTTL   = time.Hour
	negTTL   = 30 * time.Second // longest life of a negative answer
	staleFor = time.Hour        // how long an answer may serve after its end when no server answers (RFC 8767)
	staleTTL = 30               // seconds that a stale answer may be kept by the client
	patience = 1800 * time.Millisecond
)

// key is a whole question; nothing of it is folded into a hash that another question could share.
type key struct {
	name   string // lower case
	typ    uint16
	do, cd bool
}

func keyOf(q *dns.Msg) key {
	opt := q.IsEdns0()
	return key{dns.CanonicalName(q.Question[0].Name), q.Question[0].Qtype, opt != nil && opt.Do(), q.CheckingDisabled}
}

type entry struct {
	msg    *dns.Msg // never written to
	stored time.Time
	ends   time.Time
}

// flight is a question that is being asked; others that ask the same wait for it.
type flight struct {
	done chan struct{}
	msg  *dns.Msg
	err  error
}

// cache keeps answers. When it is full a tenth goes, whatever the map yields first.
type cache struct {
	mu      sync.Mutex
	size    int
	entries map[key]entry
	flights map[key]*flight
}

func newCache(size int) *cache {
	if size == 0 {
		size = DefaultCacheSize
	}
	return &cache{size: size, entries: map[key]entry{}, flights: map[key]*flight{}}
}

// Exchange answers a client's query: from the cache, else by asking. When the servers are silent an answer whose time
// is over serves, but not longer than it takes a client to give up. The message returned is the caller's.
func (f *Forwarder) Exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	k, now := keyOf(q), time.Now()
	old, fresh := f.cache.get(k, now)
	if fresh {
		return old.copy(now), nil
	}
	fl, mine := f.cache.join(k)
	if mine {
		go f.fly(context.WithoutCancel(ctx), k, fl, q.Copy())
	}
	var late <-chan time.Time
	if old.msg != nil {
		t := time.NewTimer(patience)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-fl.done:
		if old.msg != nil && (fl.err != nil || !good(fl.msg)) {
			return old.stale(), nil
		}
		if fl.err != nil {
			return nil, fl.err
		}
		return fl.msg.Copy(), nil
	case <-late:
		return old.stale(), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fly asks and tells all who wait.
func (f *Forwarder) fly(ctx context.Context, k key, fl *flight, q *dns.Msg) {
	fl.msg, fl.err = f.ask(ctx, q)
	if fl.err == nil && fl.msg == nil {
		fl.err = errors.New("upstream: no answer")
	}
	f.cache.land(k, fl, time.Now())
	close(fl.done)
}

// get returns what is kept for k, and whether its time is not over.
func (c *cache) get(k key, now time.Time) (entry, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.entries[k]
	if e.msg != nil && now.After(e.ends.Add(staleFor)) {
		delete(c.entries, k)
		e = entry{}
	}
	return e, e.msg != nil && now.Before(e.ends)
}

// join returns the flight of a question, and whether the caller must fly it.
func (c *cache) join(k key) (*flight, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if fl := c.flights[k]; fl != nil {
		return fl, false
	}
	fl := &flight{done: make(chan struct{})}
	c.flights[k] = fl
	return fl, true
}

// land ends a flight and keeps what it brought, if it is worth it.
func (c *cache) land(k key, fl *flight, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.flights, k)
	if fl.err != nil || !good(fl.msg) || fl.msg.Truncated || c.size < 0 {
		return
	}
	ttl := lifetime(fl.msg)
	if ttl <= 0 {
		return
	}
	if len(c.entries) >= c.size {
		n := len(c.entries)/10 + 1
		for old := range c.entries {
			delete(c.entries, old)
			if n--; n == 0 {
				break
			}
		}
	}
	c.entries[k] = entry{fl.msg.Copy(), now, now.Add(ttl)}
}

// lifetime is the least time to live of the records; of a negative answer that of its SOA (RFC 2308).
func lifetime(m *dns.Msg) time.Duration {
	ttl, negative := maxTTL, m.Rcode == dns.RcodeNameError || len(m.Answer) == 0
	if negative {
		ttl = 0
	}
	for _, rr := range m.Answer {
		ttl = min(ttl, seconds(rr.Header().Ttl))
	}
	if !negative {
		return ttl
	}
	for _, rr := range m.Ns {
		if soa, ok := rr.(*dns.SOA); ok {
			return min(negTTL, seconds(min(soa.Hdr.Ttl, soa.Minttl)))
		}
	}
	return 0
}

func seconds(n uint32) time.Duration { return time.Duration(n) * time.Second }

// copy is the answer with the time it has left.
func (e entry) copy(now time.Time) *dns.Msg {
	age := uint32(now.Sub(e.stored) / time.Second)
	return e.withTTL(func(ttl uint32) uint32 { return ttl - min(ttl, age) })
}

// stale is the answer after its time.
func (e entry) stale() *dns.Msg {
	return e.withTTL(func(uint32) uint32 { return staleTTL })
}

func (e entry) withTTL(ttl func(uint32) uint32) *dns.Msg {
	m := e.msg.Copy()
	for _, section := range [][]dns.RR{m.Answer, m.Ns, m.Extra} {
		for _, rr := range section {
			if h := rr.Header(); h.Rrtype != dns.TypeOPT {
				h.Ttl = ttl(h.Ttl)
			}
		}
	}
	return m
}
