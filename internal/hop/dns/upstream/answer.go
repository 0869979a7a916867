package upstream

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/dns/upstream/cache"
	"github.com/podway/podway/internal/hop/dns/upstream/packet"
)

// The times of the cache that nobody sets.
const (
	noSOA     = 5 * time.Second // life of a negative answer that does not say how long it holds
	errorLife = time.Second     // of a failure; it doubles with each in a row (RFC 9520)
	holdFor   = 5 * time.Second // after a failure an old answer serves at once for so long
	retryAll  = time.Second     // and the servers are asked again so often meanwhile
	staleTTL  = 30              // seconds that a client may keep an old answer (RFC 8767 5)
	patience  = 1800 * time.Millisecond
)

// CacheOptions say what is kept.
type CacheOptions struct {
	Entries     int           // 0 = DefaultEntries, negative = nothing is kept
	Bytes       int           // 0 = 1 KiB an entry
	MaxTTL      time.Duration // of answers; 0 = an hour
	MinTTL      time.Duration // a shorter life is stretched
	MaxNegative time.Duration // of answers without records; 0 = 30 s
	MinNegative time.Duration
	Failures    time.Duration // longest memory of a failure; 0 = 5 s, negative = none
	Stale       time.Duration // how long after its end an answer serves when no server answers; 0 = an hour, negative = not
	StaleAtOnce bool          // it serves while the servers are being asked again
	KeepTTL     bool          // clients are told the whole life of an answer, whatever its age
	Prefetch    int           // uses after which an answer is fetched anew before its end; 0 = 2, negative = never
	Percent     int           // of its life that is left then; 0 = 10
	Zones       []string      // only names under these are kept (absolute, lower case); empty = all
	NoSuccess   []string      // no answers with records for names under these
	NoDenial    []string      // no others
}

// DefaultEntries is how many answers are kept.
const DefaultEntries = 10_000

func (c CacheOptions) withDefaults() CacheOptions {
	set := func(d *time.Duration, to time.Duration) {
		if *d == 0 {
			*d = to
		}
	}
	set(&c.MaxTTL, time.Hour)
	set(&c.MaxNegative, 30*time.Second)
	set(&c.Stale, time.Hour)
	set(&c.Failures, 5*time.Second)
	if c.Entries == 0 {
		c.Entries = DefaultEntries
	}
	if c.Bytes == 0 {
		c.Bytes = max(c.Entries<<10, 1<<17)
	}
	if c.Prefetch == 0 {
		c.Prefetch = 2
	}
	if c.Percent == 0 {
		c.Percent = 10
	}
	return c
}

func (f *Forwarder) clock(now time.Time) int64 { return int64(now.Sub(f.start)) }

// Answer implements server.Cached: the answer that is kept, when its time is not over or the servers have just failed.
func (f *Forwarder) Answer(a answers.Asked, dst, msg []byte, turn uint32, now time.Time) ([]byte, int, bool) {
	if f.cache == nil {
		return nil, 0, false
	}
	k := cache.Key{Name: a.Name, Type: a.Type, DO: a.DO, CD: a.Flags&packet.FlagCD != 0}
	e := f.cache.Use(&k)
	if e == nil {
		return nil, 0, false
	}
	life, ok := f.lifeOf(e, f.clock(now), turn)
	if !ok {
		return nil, 0, false
	}
	c := packet.Client{Query: msg[:a.End], Limit: a.Limit, EDNS: a.EDNS, DO: a.DO, AD: a.Flags&packet.FlagAD != 0, Offer: answers.MaxUDP}
	return e.Answer.AppendTo(dst, c, life, turn), e.Answer.Rcode, true
}

// lifeOf says what time to live an entry has for a client now, and whether it may be used without asking anybody. It
// counts the use and has the entry fetched anew when it is popular and ends soon.
func (f *Forwarder) lifeOf(e *cache.Entry, now int64, turn uint32) (packet.Life, bool) {
	n := &f.counts.lanes[turn%lanes]
	switch {
	case now < e.Ends:
		if e.Negative || e.Error {
			n.denial.Add(1)
		} else {
			n.success.Add(1)
		}
		if (e.Ends-now)*100 < (e.Ends-e.Stored)*int64(f.o.Cache.Percent) {
			f.prefetch(e)
		}
		if f.o.Cache.KeepTTL {
			return packet.Life{}, true
		}
		return packet.Life{Age: uint32((now - e.Stored) / int64(time.Second))}, true
	case now < e.Hold.Load(), f.o.Cache.StaleAtOnce && now < e.Gone && !e.Error:
		n.stale.Add(1)
		if now >= e.Retry.Load() {
			e.Retry.Store(now + int64(retryAll))
			_, _ = f.join(e.Key, f.o.MaxConcurrent/2)
		}
		return packet.Life{Stale: staleTTL}, true
	}
	return packet.Life{}, false
}

// ErrClass says that a question of another class than IN came.
var errClass = errors.New("upstream: only questions of class IN are asked")

// keyOf is the key of a question; scratch is its memory.
func keyOf(q *dns.Msg, scratch []byte) (cache.Key, error) {
	if len(q.Question) != 1 || q.Question[0].Qclass != dns.ClassINET {
		return cache.Key{}, errClass
	}
	n, err := dns.PackDomainName(strings.ToLower(dns.Fqdn(q.Question[0].Name)), scratch, 0, nil, false)
	if err != nil {
		return cache.Key{}, fmt.Errorf("upstream: %w", err)
	}
	opt := q.IsEdns0()
	return cache.Key{Name: scratch[:n], Type: q.Question[0].Qtype, DO: opt != nil && opt.Do(), CD: q.CheckingDisabled}, nil
}

// Exchange answers a client's query: from the cache, else by asking. When the servers are silent an answer whose time
// is over serves, but not longer than it takes a client to give up. The message returned is the caller's.
func (f *Forwarder) Exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	k, err := keyOf(q, make([]byte, 256))
	if err != nil {
		return nil, err
	}
	old, now := (*cache.Entry)(nil), f.clock(time.Now())
	if f.cache != nil {
		if old = f.cache.Use(&k); old != nil {
			if life, ok := f.lifeOf(old, now, rand.Uint32()); ok {
				return message(old.Answer, q, life)
			}
			if old.Error || now >= old.Gone {
				old = nil
			}
		}
		f.counts.misses.Add(1)
	}
	fl, err := f.join(k, f.o.MaxConcurrent)
	if err != nil {
		return f.orStale(old, q, nil, err)
	}
	var late <-chan time.Time
	if old != nil {
		t := time.NewTimer(patience)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-fl.done:
		return f.orStale(old, q, fl.answer, fl.err)
	case <-late:
		return f.orStale(old, q, nil, nil)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// orStale is the message for a client when an old answer may serve instead of a failure.
func (f *Forwarder) orStale(old *cache.Entry, q *dns.Msg, a *packet.Answer, err error) (*dns.Msg, error) {
	switch {
	case old != nil && (a == nil || !good(a.Rcode)):
		f.counts.lanes[0].stale.Add(1)
		return message(old.Answer, q, packet.Life{Stale: staleTTL})
	case err != nil:
		return nil, err
	}
	return message(a, q, packet.Life{})
}

// message is an answer as a message for those who go on working with it.
func message(a *packet.Answer, q *dns.Msg, life packet.Life) (*dns.Msg, error) {
	head := dns.Msg{MsgHdr: dns.MsgHdr{Id: q.Id, RecursionDesired: q.RecursionDesired, CheckingDisabled: q.CheckingDisabled}, Question: q.Question[:1]}
	wire, err := head.Pack()
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	wire = a.AppendTo(nil, packet.Client{Query: wire, Limit: dns.MaxMsgSize, AD: true}, life, rand.Uint32())
	m := new(dns.Msg)
	if err := m.Unpack(wire); err != nil {
		return nil, fmt.Errorf("upstream: %s %d: %w", q.Question[0].Name, binary.BigEndian.Uint16(wire), err)
	}
	return m, nil
}
