package upstream

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"
)

// Policy says which server is asked first. The others follow when it fails or takes longer than it should.
type Policy uint8

// The policies.
const (
	Fastest    Policy = iota // the one with the shortest round trip lately, others now and then
	Random                   // any
	RoundRobin               // each in its turn
	Sequential               // in the order in which they are listed
)

// fade is what a server's round trip counts for less, in parts of a thousand, with each question that another is asked first:
// sooner or later it is asked again, and one late answer is not held against it for ever.
const fade = 10

// minHedge is the shortest wait before a second server is asked; below it a hiccup of our own machine would count.
const minHedge = 10 * time.Millisecond

// inOrder returns the servers that may be asked, those that fail last, and how many do not.
func (f *Forwarder) inOrder(list []*server) ([]*server, int) {
	var up, down []*server
	for _, s := range list {
		switch {
		case s.loops.Load():
		case f.o.MaxFails > 0 && int(s.fails.Load()) >= f.o.MaxFails:
			down = append(down, s)
		default:
			up = append(up, s)
		}
	}
	if len(up) == 0 && len(down) > 0 {
		f.o.Metrics.broken.Inc()
	}
	switch f.o.Policy {
	case Fastest:
		slices.SortStableFunc(up, func(a, b *server) int { return int(a.rtt.Load() - b.rtt.Load()) })
		for _, s := range up[min(1, len(up)):] {
			if rtt := s.rtt.Load(); rtt > 0 {
				s.rtt.Store(max(1, rtt-rtt*fade/1000-1))
			}
		}
	case Random:
		rand.Shuffle(len(up), func(i, j int) { up[i], up[j] = up[j], up[i] })
	case RoundRobin:
		if n := len(up); n > 0 {
			first := int(f.round.Add(1)-1) % n
			up = slices.Concat(up[first:], up[:first])
		}
	}
	return append(up, down...), len(up)
}

// hedgeAfter is how long the first server may take before the second is asked as well: longer than nearly all of its
// answers took, or than those of the fastest when that is not the first. It is Stagger when nothing is known or when too
// many questions are asked twice already.
func (f *Forwarder) hedgeAfter(order []*server) time.Duration {
	wait := f.o.Stagger
	f.hedges.earn()
	for _, s := range order[:min(2, len(order))] {
		if rtt := s.rtt.Load(); rtt > 0 && s.fails.Load() == 0 {
			wait = min(wait, max(minHedge, time.Duration(rtt+4*s.dev.Load())))
		}
	}
	if len(order) > 1 && wait < f.o.Stagger && !f.hedges.allows() {
		return f.o.Stagger
	}
	return wait
}

// budget bounds early second questions to a tenth of all, with some in hand.
type budget struct{ tenths atomic.Int64 }

const mostTenths = 200

func (b *budget) earn() {
	if b.tenths.Load() < mostTenths {
		b.tenths.Add(1)
	}
}

// allows reports whether a second question may be asked early.
func (b *budget) allows() bool { return b.tenths.Load() >= 10 }

// spend pays for one.
func (b *budget) spend() { b.tenths.Add(-10) }

// observe takes a round trip into account (RFC 6298's smoothing).
func (s *server) observe(took time.Duration) {
	rtt, dev := s.rtt.Load(), s.dev.Load()
	if rtt == 0 {
		s.rtt.Store(max(1, int64(took)))
		s.dev.Store(int64(took) / 2)
		return
	}
	off := int64(took) - rtt
	s.rtt.Store(max(1, rtt+off/8))
	s.dev.Store(dev + (max(off, -off)-dev)/4)
}

// atLeast takes into account that an answer takes longer than that.
func (s *server) atLeast(took time.Duration) {
	if int64(took) > s.rtt.Load() {
		s.observe(took)
	}
}
