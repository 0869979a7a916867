package nft

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// ErrExist and ErrNotExist are what the kernel and the Fake say of an object or element that is there already, or not;
// ErrFull of a set without room for another element.
var (
	ErrExist    = errors.New("it exists already")
	ErrNotExist = errors.New("it does not exist")
	ErrFull     = errors.New("it is full")
)

// Kernel is the door: the real one is opened by Open, Fake stands in for it on any operating system.
type Kernel interface {
	// Apply carries out a batch whole or not at all.
	Apply(ctx context.Context, ops []Op) error
	// Read returns the table, without the elements of dynamic sets, or nil when there is none.
	Read(ctx context.Context, f Family, name string) (*Table, error)
	// Look returns the table for Eval alone: elements are looked up as they are needed, while the Kernel is open. It costs
	// what the rules cost, however large the sets are.
	Look(ctx context.Context, f Family, name string) (*Table, error)
	// Generation counts the changes that anybody made to any table; equal numbers mean that nothing changed.
	Generation(ctx context.Context) (uint32, error)
	Close() error
}

// Fake keeps tables in memory and is as strict as the kernel about names, duplicates and what is still in use.
type Fake struct {
	mu     sync.Mutex
	tables map[tableKey]*Table
	gen    uint32
	// Fail, when set, is asked before each batch and may refuse it.
	Fail func(ops []Op) error
}

type tableKey struct {
	f    Family
	name string
}

// NewFake returns an empty host.
func NewFake() *Fake { return &Fake{tables: map[tableKey]*Table{}} }

// Close does nothing.
func (f *Fake) Close() error { return nil }

// Generation implements Kernel.
func (f *Fake) Generation(context.Context) (uint32, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.gen, nil
}

// Read implements Kernel.
func (f *Fake) Read(_ context.Context, fam Family, name string) (*Table, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tables[tableKey{fam, name}].clone(), nil
}

// Look implements Kernel.
func (f *Fake) Look(ctx context.Context, fam Family, name string) (*Table, error) {
	return f.Read(ctx, fam, name)
}

// Tables returns all tables, for tests that look for leftovers.
func (f *Fake) Tables() []*Table {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.tables))
}

// Apply implements Kernel.
func (f *Fake) Apply(_ context.Context, ops []Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.Fail != nil {
		if err := f.Fail(ops); err != nil {
			return err
		}
	}
	next := map[tableKey]*Table{}
	for _, op := range ops {
		k := tableKey{op.Table.Family, op.Table.Name}
		if _, ok := next[k]; !ok {
			next[k] = f.tables[k].clone()
		}
		if err := f.apply(next, k, op); err != nil {
			return fmt.Errorf("nft: %s of table %s: %w", op, op.Table.Name, err)
		}
	}
	for _, t := range next {
		if t == nil {
			continue
		}
		if err := t.Validate(); err != nil {
			return err
		}
	}
	for k, t := range next {
		if t == nil {
			delete(f.tables, k)
		} else {
			f.tables[k] = t
		}
	}
	f.gen++
	return nil
}

func (f *Fake) apply(next map[tableKey]*Table, k tableKey, op Op) error {
	t := next[k]
	switch op.Kind {
	case AddTable:
		if t == nil {
			next[k] = NewTable(op.Table.Family, op.Table.Name)
			next[k].Comment = op.Table.Comment
		}
		return nil
	case DelTable:
		next[k] = nil
		return nil
	}
	if t == nil {
		return ErrNotExist
	}
	if op.Chain != nil {
		return t.applyChain(op)
	}
	return t.applySet(op)
}

func (t *Table) applyChain(op Op) error {
	name := op.Chain.Name
	c := t.Chains[name]
	if op.Kind == AddChain {
		if c != nil {
			return ErrExist
		}
		t.Chains[name] = &Chain{Name: name, Base: op.Chain.Base}
		return nil
	}
	if c == nil {
		return ErrNotExist
	}
	switch op.Kind {
	case FlushChain:
		c.Rules = nil
	case AddRules:
		c.Rules = append(c.Rules, op.Rules...)
		for _, r := range op.Rules {
			for _, e := range r.Exprs {
				if err := t.validate(e); err != nil {
					return err
				}
			}
		}
	case DelChain:
		delete(t.Chains, name)
		return t.Validate() // somebody may still name it
	}
	return nil
}

func (t *Table) applySet(op Op) error {
	name := op.Set.Name
	s := t.Sets[name]
	if op.Kind == AddSet {
		if s != nil {
			return ErrExist
		}
		s = new(*op.Set)
		s.Elems = map[string]string{}
		t.Sets[name] = s
		return nil
	}
	if s == nil {
		return ErrNotExist
	}
	switch op.Kind {
	case DelSet:
		delete(t.Sets, name)
		return t.Validate()
	case AddElems:
		return t.addElems(s, op.Elems)
	case DelElems:
		for _, e := range op.Elems {
			if _, ok := s.Elems[e.Key]; !ok {
				return fmt.Errorf("element %s: %w", s.FormatKey(e.Key), ErrNotExist)
			}
			delete(s.Elems, e.Key)
		}
	}
	return nil
}

func (t *Table) addElems(s *Set, es []Elem) error {
	for _, e := range es {
		if old, ok := s.Elems[e.Key]; ok && old != e.Value {
			return fmt.Errorf("element %s: %w", s.FormatKey(e.Key), ErrExist)
		}
		if err := t.validateElem(s, e.Key, e.Value); err != nil {
			return err
		}
		if s.Interval && s.overlaps(e.Key) {
			return fmt.Errorf("element %s overlaps another: %w", s.FormatKey(e.Key), ErrExist)
		}
		s.Elems[e.Key] = e.Value
	}
	if s.Room > 0 && len(s.Elems) > int(s.Room) {
		return fmt.Errorf("set %s holds %d elements: %w", s.Name, s.Room, ErrFull)
	}
	return nil
}

// overlaps reports whether another interval of the set has a key in common with this one.
func (s *Set) overlaps(key string) bool {
	n := len(key) / 2
	for k := range s.Elems {
		apart, at := k == key, 0
		for _, t := range s.Key {
			from, to := at, at+t.padded()
			apart = apart || k[n+from:n+to] < key[from:to] || key[n+from:n+to] < k[from:to]
			at = to
		}
		if !apart {
			return true
		}
	}
	return false
}

func (t *Table) clone() *Table {
	if t == nil {
		return nil
	}
	out := NewTable(t.Family, t.Name)
	out.Comment = t.Comment
	for n, c := range t.Chains {
		out.Chains[n] = &Chain{Name: c.Name, Base: c.Base, Rules: slices.Clone(c.Rules)}
	}
	for n, s := range t.Sets {
		out.Sets[n] = new(*s)
		out.Sets[n].Elems = maps.Clone(s.Elems)
	}
	return out
}
