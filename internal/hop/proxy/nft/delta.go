package nft

import (
	"maps"
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
	sizes := maps.Clone(e.sizes)
	for name, addrs := range e.shared {
		sizes[name] = len(addrs)
	}
	return &elements{is4: e.is4, sizes: sizes, classes: e.classes, shared: e.shared, ports: e.ports, words: e.words}
}

// partial reports whether the change can be made without looking at the other Services: numbers of classes may not move.
func (d *delta) partial() bool {
	if len(d.total.words) > 0 {
		return false
	}
	all := maps.Clone(d.total.classes)
	for c := range d.now.classes {
		all[c]++
	}
	if len(all) == len(d.total.classes) {
		return true
	}
	_, moved := words(all)
	return !moved
}

// counts brings the totals up to date. Only classes and hairpin addresses that the Services touch are looked at.
func (d *delta) counts() *elements {
	t := d.total
	move(t.classes, d.was.classes, d.now.classes)
	move(t.sizes, d.was.sizes, d.now.sizes)
	for name := range t.shared {
		move(t.shared[name], d.was.shared[name], d.now.shared[name])
		t.sizes[name] = len(t.shared[name])
	}
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
		h.Room, w.Room = 0, 0 // these tables are only a part of the kernel's: how full its sets are is for crowded
		h.Elems, w.Elems = elems(d.was, s.Name), elems(d.now, s.Name)
		have.AddSet(&h)
		want.AddSet(&w)
	}
	d.classes(have, want)
	for name := range d.total.shared {
		for a := range d.touched(name) {
			before := d.total.shared[name][a]
			after := before - d.was.shared[name][a] + d.now.shared[name][a]
			mark(have.Sets[name], sharedKey(name, a), before > 0 && after == 0)
			mark(want.Sets[name], sharedKey(name, a), before == 0 && after > 0)
		}
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

func (d *delta) touched(set string) map[netip.Addr]bool {
	out := map[netip.Addr]bool{}
	for a := range d.was.shared[set] {
		out[a] = true
	}
	for a := range d.now.shared[set] {
		out[a] = true
	}
	return out
}

// crowded lists the sets that may not have the room for what is added before other elements go.
func (d *delta) crowded(room map[string]uint32) (out []string) {
	for name, r := range room {
		added := d.now.sizes[name] + len(d.now.shared[name])
		if added > 0 && d.total.sizes[name]+added > int(r) {
			out = append(out, name)
		}
	}
	return out
}

// classes adds the chains and verdicts of classes that the last frontend leaves or the first one enters, and the sets for
// affinity if they come or go with them.
func (d *delta) classes(have, want *knft.Table) {
	after := func(c class) int { return d.total.classes[c] - d.was.classes[c] + d.now.classes[c] }
	var gone, come []class
	for c := range d.was.classes {
		if after(c) == 0 {
			gone = append(gone, c)
			d.was.verdicts(have, c, d.plan)
		}
	}
	for c := range d.now.classes {
		if d.total.classes[c] == 0 {
			come = append(come, c)
			d.now.verdicts(want, c, d.plan)
		}
	}
	if len(gone)+len(come) > 0 {
		d.chains(have, gone, func(c class) bool { return after(c) > 0 })
		d.chains(want, come, func(c class) bool { return d.total.classes[c] > 0 })
	}
	d.affinity(have, want)
}

// chains puts the chains of classes into a table, except those that another class, which others tells, has too.
func (d *delta) chains(t *knft.Table, cs []class, others func(class) bool) {
	kept := map[string]bool{}
	for _, in := range []map[class]int{d.total.classes, d.now.classes} {
		for c := range in {
			if others(c) {
				kept[c.chain()] = true
			}
		}
	}
	for _, c := range cs {
		if !c.fixed() && !kept[c.chain()] {
			t.AddChain(&knft.Chain{Name: c.chain(), Rules: c.rules(d.f, &d.plan.Node)})
		}
	}
}

func (d *delta) affinity(have, want *knft.Table) {
	before, after := d.remembers()
	was, now := affinitySets(d.f, d.was), affinitySets(d.f, d.now)
	for i := range was {
		if before {
			now[i].Room = 0
			was[i].Room = 0
		}
	}
	if before {
		have.AddSet(was...)
	}
	if after {
		want.AddSet(now...)
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
