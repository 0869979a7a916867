package upstream

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/upstream/cache"
	"github.com/podway/podway/internal/hop/dns/upstream/packet"
)

// ErrBusy says that Options.MaxConcurrent questions are being asked.
var ErrBusy = errors.New("upstream: too many questions are being asked")

// flight is a question that is being asked; others that ask the same wait for it.
type flight struct {
	done   chan struct{}
	answer *packet.Answer // nil when err is set
	err    error
}

type flightKey struct {
	name   string // wire format, lower case
	typ    uint16
	do, cd bool
}

type flights struct {
	mu   sync.Mutex
	open map[flightKey]*flight
}

// join returns the flight of a question, which it starts when there is none and fewer than most are on their way.
func (f *Forwarder) join(k cache.Key, most int) (*flight, error) {
	key := flightKey{string(k.Name), k.Type, k.DO, k.CD}
	f.flights.mu.Lock()
	defer f.flights.mu.Unlock()
	if fl := f.flights.open[key]; fl != nil {
		return fl, nil
	}
	if len(f.flights.open) >= most {
		f.counts.rejected.Add(1)
		return nil, ErrBusy
	}
	fl := &flight{done: make(chan struct{})}
	f.flights.open[key] = fl
	go f.fly(key, fl)
	return fl, nil
}

// fly asks and tells all who wait.
func (f *Forwarder) fly(key flightKey, fl *flight) {
	k := cache.Key{Name: []byte(key.name), Type: key.typ, DO: key.do, CD: key.cd}
	m, err := f.ask(context.Background(), request(k))
	fl.answer, fl.err = f.land(k, m, err, f.clock(time.Now()))
	f.flights.mu.Lock()
	delete(f.flights.open, key)
	f.flights.mu.Unlock()
	close(fl.done)
}

// request is what is sent for a question, with an EDNS size of our own. Whether the answer is secure is always asked, so
// that one answer serves those who want to know and those who do not (RFC 6840 5.7).
func request(k cache.Key) *dns.Msg {
	name, _, err := dns.UnpackDomainName(k.Name, 0)
	if err != nil {
		name = "." // a name that was packed unpacks
	}
	q := new(dns.Msg).SetQuestion(name, k.Type)
	q.CheckingDisabled, q.AuthenticatedData = k.CD, true
	q.SetEdns0(ourSize, k.DO)
	return q
}

// ourSize is the largest datagram that we ask for: it fits every path (DNS flag day 2020).
const ourSize = 1232

// land makes of what the servers said an answer for clients, and keeps it if it is worth it.
func (f *Forwarder) land(k cache.Key, m *dns.Msg, err error, now int64) (*packet.Answer, error) {
	if err == nil && good(m.Rcode) {
		life, negative := f.limits.Apply(m)
		a, e := packet.New(m)
		if e == nil {
			f.keep(k, a, now, life, negative)
			return a, nil
		}
		err = e
	}
	rcode := dns.RcodeServerFailure
	if err == nil && m.Rcode <= 0xf {
		rcode = m.Rcode
	}
	a := packet.Failure(rcode)
	if !errors.Is(err, ErrNoServer) {
		f.keepFailure(k, a, now)
	}
	if err != nil {
		return nil, err
	}
	return a, nil
}

func (f *Forwarder) keep(k cache.Key, a *packet.Answer, now int64, life time.Duration, negative bool) {
	switch {
	case f.cache == nil:
	case life <= 0: // the old one has been contradicted
		f.cache.Delete(&k)
	case !a.Truncated && f.o.Cache.keeps(k.Name, negative):
		e := cache.NewEntry(k, a)
		e.Negative, e.Stored, e.Ends = negative, now, now+int64(life)
		e.Gone = e.Ends + int64(max(0, f.o.Cache.Stale))
		f.cache.Put(e)
	}
}

// keepFailure remembers that no server had an answer: an old answer serves at once for a while, without one the failure.
func (f *Forwarder) keepFailure(k cache.Key, a *packet.Answer, now int64) {
	most := f.o.Cache.Failures
	if f.cache == nil || !f.o.Cache.keeps(k.Name, true) {
		return
	}
	failures, old := uint8(0), f.cache.Get(&k)
	if old != nil && !old.Error && now < old.Gone {
		old.Retry.Store(now + int64(retryAll))
		old.Hold.Store(min(max(now, old.Ends)+int64(holdFor), old.Gone))
		return
	}
	if old != nil && old.Error && now < old.Gone {
		failures = min(old.Failures+1, 8)
	}
	if most < 0 {
		return
	}
	life := min(errorLife<<failures, most)
	e := cache.NewEntry(k, a)
	e.Error, e.Failures, e.Stored, e.Ends, e.Gone = true, failures, now, now+int64(life), now+2*int64(most)
	f.cache.Put(e)
}

// prefetch asks for an entry anew while it still serves, when it is popular. It never holds up who is being answered.
func (f *Forwarder) prefetch(e *cache.Entry) {
	most := f.o.Cache.Prefetch
	if most < 0 || e.Uses() < most || e.Error || !e.Refreshing.CompareAndSwap(false, true) {
		return
	}
	if _, err := f.join(e.Key, f.o.MaxConcurrent/2); err == nil {
		f.counts.prefetched.Add(1)
	}
}

// keeps reports whether an answer to a name, in wire format, may be kept.
func (c *CacheOptions) keeps(name []byte, negative bool) bool {
	if len(c.Zones) == 0 && len(c.NoSuccess) == 0 && len(c.NoDenial) == 0 {
		return true
	}
	text, _, err := dns.UnpackDomainName(name, 0)
	off := c.NoSuccess
	if negative {
		off = c.NoDenial
	}
	return err == nil && (len(c.Zones) == 0 || config.In(c.Zones, text)) && !config.In(off, text)
}
