package server

import (
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// seen is one question that was answered.
type seen struct {
	tcp, v6, upstream bool
	typ               uint16
	zone              answers.Zone
	rcode             int
	question, answer  int // bytes
	took              time.Duration
}

// types are the question types with a label of their own; all others are "other", as in CoreDNS.
var types = [...]uint16{dns.TypeA, dns.TypeAAAA, dns.TypeSRV, dns.TypePTR, dns.TypeTXT, dns.TypeCNAME, dns.TypeSOA, dns.TypeNS,
	dns.TypeMX, dns.TypeHTTPS, dns.TypeSVCB, dns.TypeDS, dns.TypeDNSKEY, dns.TypeNAPTR, dns.TypeANY}

// typePlace is the place in types of those up to HTTPS; len(types) for others.
var typePlace = func() (place [256]uint8) {
	for i := range place {
		place[i] = uint8(len(types))
	}
	for i, t := range types {
		place[t] = uint8(i)
	}
	return place
}()

// sizes are the bounds of CoreDNS's size buckets in bytes, durations those of its duration buckets: each twice the one before.
var sizes = [...]int{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16_000, 32_000, 48_000, 64_000}

const (
	rcodes        = 24 // including the extended ones, the last stands for all above
	zones         = 3
	durations     = 16
	firstDuration = 250 * time.Microsecond
)

type durationCounts struct {
	counts [durations + 1]atomic.Uint64
	sum    atomic.Uint64 // nanoseconds
}

type sizeCounts struct {
	counts [len(sizes) + 1]atomic.Uint64
	sum    atomic.Uint64
}

// tally is the counts of one counter of questions: plain numbers, so that counting takes no lock and no look-up. It has
// mostly one writer, whose processor keeps it at hand.
type tally struct {
	requests         [2][2][zones][len(types) + 1]atomic.Uint64 // TCP, IPv6, zone, type
	responses        [2][zones][rcodes]atomic.Uint64            // upstream, zone, rcode
	durations        [zones]durationCounts
	question, answer [2][zones]sizeCounts // TCP, zone
}

// count counts one question, all but its time.
func (t *tally) count(s seen) {
	place := len(types)
	if int(s.typ) < len(typePlace) {
		place = int(typePlace[s.typ])
	}
	tcp := index(s.tcp)
	t.requests[tcp][index(s.v6)][s.zone][place].Add(1)
	t.responses[index(s.upstream)][s.zone][min(s.rcode, rcodes-1)].Add(1)
	t.question[tcp][s.zone].count(s.question)
	t.answer[tcp][s.zone].count(s.answer)
}

// took counts the time of n questions of one zone.
func (t *tally) took(zone answers.Zone, n int, d time.Duration) {
	if n == 0 {
		return
	}
	h := &t.durations[zone]
	h.counts[durationPlace(d)].Add(uint64(n))
	h.sum.Add(uint64(n) * uint64(max(d, 0)))
}

// durationPlace is the bucket of a duration: the first whose bound is not below it.
func durationPlace(d time.Duration) int {
	return min(bits.Len64(uint64(max(d-1, 0)/firstDuration)), durations)
}

func (c *sizeCounts) count(n int) {
	c.counts[sizePlace(n)].Add(1)
	c.sum.Add(uint64(n))
}

// sizePlace is the bucket of a size.
func sizePlace(n int) int {
	if n <= 400 {
		return (n + 99) / 100
	}
	i := 5
	for i < len(sizes) && n > sizes[i] {
		i++
	}
	return i
}

// add adds another tally's numbers.
func (t *tally) add(o *tally) {
	for tcp := range 2 {
		for z := range zones {
			for v6 := range 2 {
				addAll(t.requests[tcp][v6][z][:], o.requests[tcp][v6][z][:])
			}
			addAll(t.responses[tcp][z][:], o.responses[tcp][z][:]) // here the first index is "upstream"
			addAll(t.question[tcp][z].counts[:], o.question[tcp][z].counts[:])
			addAll(t.answer[tcp][z].counts[:], o.answer[tcp][z].counts[:])
			t.question[tcp][z].sum.Add(o.question[tcp][z].sum.Load())
			t.answer[tcp][z].sum.Add(o.answer[tcp][z].sum.Load())
		}
	}
	for z := range zones {
		addAll(t.durations[z].counts[:], o.durations[z].counts[:])
		t.durations[z].sum.Add(o.durations[z].sum.Load())
	}
}

func addAll(to, from []atomic.Uint64) {
	for i := range to {
		to[i].Add(from[i].Load())
	}
}
