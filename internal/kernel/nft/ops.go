package nft

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// OpKind is a kind of Op.
type OpKind uint8

// The kinds of operations. Order in a batch matters as it does to the kernel: what is named must exist already.
const (
	AddTable   OpKind = iota
	DelTable          // with all that is in it; no error when there is none
	AddSet            // without its elements
	DelSet            // fails while a rule names it
	AddChain          // without its rules
	DelChain          // with its rules; fails while a rule or a verdict map names it
	FlushChain        // delete its rules
	AddRules          // append to the chain
	AddElems          // a key that is there with another value is an error
	DelElems          // a key that is not there is an error
)

// Elem is an element of a set (Value "") or a map.
type Elem struct{ Key, Value string }

// Op is one operation on a table. A batch of them is applied whole or not at all.
type Op struct {
	Kind  OpKind
	Table *Table // family, name and comment are used
	Chain *Chain
	Rules []Rule
	Set   *Set
	Elems []Elem
}

// String says what the operation does, for errors.
func (o Op) String() string {
	words := []string{"add table", "delete table", "add set", "delete set", "add chain", "delete chain", "flush chain",
		"add rules to chain", "add elements to set", "delete elements of set"}
	s := words[min(int(o.Kind), len(words)-1)]
	switch {
	case o.Chain != nil:
		return s + " " + o.Chain.Name
	case o.Set != nil:
		return s + " " + o.Set.Name
	}
	return s
}

// Create returns the operations that make a table that does not exist.
func Create(want *Table) []Op { return Diff(nil, want) }

// Count is how many elements a set has.
func (s *Set) Count() int { return max(len(s.Elems), len(s.List)) }

// Diff returns the operations that make have into want; nil is a table that does not exist. What both have is not
// touched, so that packets in flight see either the old or the new rules, and affinity and counters stay.
func Diff(have, want *Table) []Op {
	switch {
	case want == nil && have == nil:
		return nil
	case want == nil:
		return []Op{{Kind: DelTable, Table: have}}
	case have == nil:
		have = NewTable(want.Family, want.Name)
		have.Comment = want.Comment
		return append([]Op{{Kind: AddTable, Table: want}}, diff(have, want)...)
	case have.Comment != want.Comment: // a table's comment is written once
		return append([]Op{{Kind: DelTable, Table: have}}, Create(want)...)
	}
	return diff(have, want)
}

// diff orders the operations so that nothing is named before it exists or deleted while it is named: first empty chains,
// then sets, elements and rules; then what goes, the other way round.
func diff(have, want *Table) []Op {
	d := differ{have: have, want: want, remade: map[string]bool{}}
	d.chainsThatGo()
	d.sets()
	d.rules()
	return slices.Concat(d.cut, d.gone, d.made, d.filled, d.ruled, d.emptied, d.dropped)
}

type differ struct {
	have, want *Table
	remade     map[string]bool // sets whose shape differs: deleted and made anew, so every rule that names them goes first

	cut     []Op // flush of chains that name a remade set
	gone    []Op // remade sets and base chains, deleted
	made    []Op // new chains and sets
	filled  []Op // elements
	ruled   []Op // rules
	emptied []Op // rules and elements that go
	dropped []Op // chains and sets that go
}

func (d *differ) op(k OpKind) Op { return Op{Kind: k, Table: d.want} }

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func (d *differ) sets() {
	for _, name := range sorted(d.want.Sets) {
		w, h := d.want.Sets[name], d.have.Sets[name]
		if h == nil || d.remade[name] {
			op := d.op(AddSet)
			op.Set = w
			d.made = append(d.made, op)
			h = &Set{}
		}
		d.elements(h, w)
	}
	for _, name := range sorted(d.have.Sets) {
		if d.want.Sets[name] == nil {
			op := d.op(DelSet)
			op.Set = d.have.Sets[name]
			d.dropped = append(d.dropped, op)
		}
	}
}

// elements makes h's elements into w's. A value is changed by deleting the key and adding it, in one batch.
func (d *differ) elements(h, w *Set) {
	if w.Dynamic {
		return
	}
	if w.List != nil && len(h.Elems) == 0 {
		d.filled = d.elems(d.filled, AddElems, w, w.List)
		return
	}
	var del, changed []Elem
	add := make([]Elem, 0, max(0, len(w.Elems)-len(h.Elems)))
	for k, v := range h.Elems {
		switch now, ok := w.Elems[k]; {
		case !ok:
			del = append(del, Elem{k, v})
		case now != v:
			changed = append(changed, Elem{k, v})
			add = append(add, Elem{k, now})
		}
	}
	for k, v := range w.Elems {
		if _, ok := h.Elems[k]; !ok {
			add = append(add, Elem{k, v})
		}
	}
	if w.Interval { // intervals may not overlap, so what goes must go first
		changed, del = append(changed, del...), nil
	}
	d.filled = d.elems(d.filled, DelElems, w, changed)
	d.filled = d.elems(d.filled, AddElems, w, add)
	d.emptied = d.elems(d.emptied, DelElems, w, del)
}

func (d *differ) elems(ops []Op, k OpKind, s *Set, es []Elem) []Op {
	if len(es) == 0 {
		return ops
	}
	if len(es) <= 1000 { // for people who read a batch; the kernel does not care
		slices.SortFunc(es, func(a, b Elem) int { return strings.Compare(a.Key, b.Key) })
	}
	op := d.op(k)
	op.Set, op.Elems = s, es
	return append(ops, op)
}

// chainsThatGo finds the sets that must be made anew and the chains that must be emptied for it.
func (d *differ) chainsThatGo() {
	for _, name := range sorted(d.want.Sets) {
		if h, w := d.have.Sets[name], d.want.Sets[name]; h != nil && (!h.SameShape(w) || !h.holds(w)) {
			d.remade[name] = true
			op := d.op(DelSet)
			op.Set = h
			d.gone = append(d.gone, op)
		}
	}
	for _, name := range sorted(d.have.Chains) {
		h, w := d.have.Chains[name], d.want.Chains[name]
		rebased := w != nil && !h.sameBase(w)
		if len(h.Rules) > 0 && (rebased || d.names(h)) {
			d.cut = append(d.cut, d.chain(FlushChain, h))
		}
		if rebased {
			d.gone = append(d.gone, d.chain(DelChain, h))
		}
	}
}

// roomy is how many times larger than wanted a set's room may be before it is made anew.
const roomy = 16

// holds reports whether the set's room is enough for its elements and those of w, which are added before others go, and
// not far too much.
func (s *Set) holds(w *Set) bool {
	switch {
	case s.Room == w.Room:
	case s.Room == 0 || w.Room > 0 && s.Room/roomy > w.Room:
		return false
	}
	if s.Room == 0 || len(s.Elems)+len(w.Elems) <= int(s.Room) {
		return true
	}
	n := len(s.Elems)
	for k := range w.Elems {
		if _, ok := s.Elems[k]; !ok {
			n++
		}
	}
	return n <= int(s.Room)
}

func (d *differ) chain(k OpKind, c *Chain) Op {
	op := d.op(k)
	op.Chain = c
	return op
}

// names reports whether a rule of the chain names a set that is made anew.
func (d *differ) names(c *Chain) bool {
	for _, r := range c.Rules {
		for _, e := range r.Exprs {
			switch e := e.(type) {
			case Lookup:
				if d.remade[e.Set] {
					return true
				}
			case Dynset:
				if d.remade[e.Set] {
					return true
				}
			}
		}
	}
	return false
}

func (d *differ) rules() {
	for _, name := range sorted(d.want.Chains) {
		w, h := d.want.Chains[name], d.have.Chains[name]
		fresh := h == nil || !h.sameBase(w)
		if fresh {
			d.made = append([]Op{d.chain(AddChain, w)}, d.made...)
		}
		if !fresh && !d.names(h) {
			if slices.EqualFunc(h.Rules, w.Rules, Rule.Equal) {
				continue
			}
			if len(h.Rules) > 0 {
				d.ruled = append(d.ruled, d.chain(FlushChain, w))
			}
		}
		if len(w.Rules) > 0 {
			op := d.chain(AddRules, w)
			op.Rules = w.Rules
			d.ruled = append(d.ruled, op)
		}
	}
	var gone []Op
	for _, name := range sorted(d.have.Chains) {
		if h := d.have.Chains[name]; d.want.Chains[name] == nil {
			if len(h.Rules) > 0 && !d.names(h) {
				d.emptied = append(d.emptied, d.chain(FlushChain, h))
			}
			gone = append(gone, d.chain(DelChain, h))
		}
	}
	d.dropped = append(gone, d.dropped...)
}

// Validate reports what in a table the kernel would refuse: a name that is nowhere defined, a value of the wrong size.
func (t *Table) Validate() error {
	for _, name := range sorted(t.Chains) {
		for _, r := range t.Chains[name].Rules {
			for _, e := range r.Exprs {
				if err := t.validate(e); err != nil {
					return fmt.Errorf("nft: chain %s: %w", name, err)
				}
			}
		}
	}
	for _, name := range sorted(t.Sets) {
		s := t.Sets[name]
		for k, v := range s.Elems {
			if err := t.validateElem(s, k, v); err != nil {
				return fmt.Errorf("nft: set %s: %w", name, err)
			}
		}
	}
	return nil
}

func (t *Table) validate(e Expr) error {
	set, chain := "", ""
	switch e := e.(type) {
	case Lookup:
		set = e.Set
	case Dynset:
		set = e.Set
	case Verdict:
		chain = e.Chain
	}
	if set != "" && t.Sets[set] == nil {
		return fmt.Errorf("no set %s", set)
	}
	if chain != "" && t.Chains[chain] == nil {
		return fmt.Errorf("no chain %s", chain)
	}
	return nil
}

func (t *Table) validateElem(s *Set, k, v string) error {
	want := size(s.Key)
	if s.Interval {
		want *= 2
	}
	if len(k) != want {
		return fmt.Errorf("key of %d bytes, want %d", len(k), want)
	}
	if s.Verdicts {
		verdict, ok := ParseVerdict(v)
		if !ok || verdict.Chain != "" && t.Chains[verdict.Chain] == nil {
			return fmt.Errorf("no such verdict: %q", v)
		}
		return nil
	}
	if len(v) != size(s.Data) {
		return fmt.Errorf("value of %d bytes, want %d", len(v), size(s.Data))
	}
	return nil
}
