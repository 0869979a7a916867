package nft

import (
	"net/netip"

	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
)

// delta is the difference that some Services make to one family's table. It is written down as two tables that hold only
// what the Services touch, so that one code (knft.Diff) orders the operations of full and partial changes.
type delta struct {
	f        knft.Family
	plan     *proxy.Plan
	total    *elements // counts of the whole table before
	was, now *elements // what the changed Services put in before and after
}

func (d *delta) ports() int { return d.total.ports - d.was.ports + d.now.ports }

// counts returns the elements' counters without the elements.
func (e *elements) counts() *elements {
	return &elements{is4: e.is4, classes: e.classes, hairpin: e.hairpin, ports: e.ports}
}

// counts brings the totals up to date. Only classes and hairpin addresses that the Services touch are looked at.
func (d *delta) counts() *elements {
	t := d.total
	move(t.classes, d.was.classes, d.now.classes)
	move(t.hairpin, d.was.hairpin, d.now.hairpin)
	t.ports = d.ports()
	return t
}

func move[K comparable](total, was, now map[K]int) {
	for k, n := range was {
		total[k] -= n
	}
	for k, n := range now {
		total[k] += n
	}
	for k := range was {
		if total[k] == 0 {
			delete(total, k)
		}
	}
}

// ops returns the operations. The totals must not have been brought up to date yet.
func (d *delta) ops() []knft.Op {
	have, want := d.table(), d.table()
	for _, s := range shapes(d.f) {
		h, w := *s, *s
		h.Elems, w.Elems = elems(d.was, s.Name), elems(d.now, s.Name)
		have.AddSet(&h)
		want.AddSet(&w)
	}
	d.classes(have, want)
	for a := range d.touched() {
		before := d.total.hairpin[a]
		after := before - d.was.hairpin[a] + d.now.hairpin[a]
		mark(have.Sets[hairpin], pair(a), before > 0 && after == 0)
		mark(want.Sets[hairpin], pair(a), before == 0 && after > 0)
	}
	return knft.Diff(have, want)
}

func (d *delta) table() *knft.Table {
	t := knft.NewTable(d.f, tableName)
	t.Comment = comment
	return t
}

func elems(e *elements, set string) map[string]string {
	if m := e.sets[set]; m != nil {
		return m
	}
	return map[string]string{}
}

func mark(s *knft.Set, key string, on bool) {
	if on {
		s.Elems[key] = ""
	}
}

func (d *delta) touched() map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for a := range d.was.hairpin {
		out[a] = true
	}
	for a := range d.now.hairpin {
		out[a] = true
	}
	return out
}

// classes adds the chains and verdicts of classes that the last frontend leaves or the first one enters, and the sets for
// affinity if they come or go with them.
func (d *delta) classes(have, want *knft.Table) {
	for c, n := range d.was.classes {
		if d.total.classes[c] == n && d.now.classes[c] == 0 {
			d.was.class(have, c, d.plan)
		}
	}
	for c := range d.now.classes {
		if d.total.classes[c] == 0 {
			d.now.class(want, c, d.plan)
		}
	}
	before, after := d.remembers()
	if before {
		have.AddSet(affinitySets(d.f, d.was)...)
	}
	if after {
		want.AddSet(affinitySets(d.f, d.now)...)
	}
}

// remembers reports whether any class had affinity before, and has it after.
func (d *delta) remembers() (before, after bool) {
	for c, n := range d.total.classes {
		if c.affinity > 0 {
			before = true
			after = after || n-d.was.classes[c]+d.now.classes[c] > 0
		}
	}
	for c := range d.now.classes {
		after = after || c.affinity > 0
	}
	return before, after
}
