// Package nft is the door to the kernel's nf_tables: tables as plain values, written and read over netlink, without the nft
// command. It owns the encoding, the text form, a pure interpreter (Eval) and the difference of two tables; it knows
// nothing of Services. It reads and writes single tables by name, never the whole ruleset: other programs' tables are
// theirs. Everything but the files ending in _linux.go builds on any operating system.
package nft

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"time"
)

// Family is a table's address family, with the kernel's numbers.
type Family uint8

// The families.
const (
	Inet Family = 1
	IPv4 Family = 2
	IPv6 Family = 10
)

// String is nft's word: ip, ip6 or inet.
func (f Family) String() string {
	switch f {
	case Inet:
		return "inet"
	case IPv4:
		return "ip"
	case IPv6:
		return "ip6"
	}
	return "family " + strconv.Itoa(int(f))
}

// Table is a whole table. A Table that was handed out is never written to again.
type Table struct {
	Family  Family
	Name    string
	Comment string // says who owns it, for people
	Chains  map[string]*Chain
	Sets    map[string]*Set
}

// NewTable returns a table without chains and sets.
func NewTable(f Family, name string) *Table {
	return &Table{Family: f, Name: name, Chains: map[string]*Chain{}, Sets: map[string]*Set{}}
}

// AddChain puts chains into the table and returns it.
func (t *Table) AddChain(cs ...*Chain) *Table {
	for _, c := range cs {
		t.Chains[c.Name] = c
	}
	return t
}

// AddSet puts sets into the table and returns it.
func (t *Table) AddSet(ss ...*Set) *Table {
	for _, s := range ss {
		t.Sets[s.Name] = s
	}
	return t
}

// Hook is a place on a packet's way, with the kernel's numbers.
type Hook uint8

// The hooks.
const (
	Prerouting  Hook = 0
	Input       Hook = 1
	Forward     Hook = 2
	Output      Hook = 3
	Postrouting Hook = 4
)

// String is nft's word for the hook.
func (h Hook) String() string {
	if names := []string{"prerouting", "input", "forward", "output", "postrouting"}; int(h) < len(names) {
		return names[h]
	}
	return "hook " + strconv.Itoa(int(h))
}

// Priorities that nft has names for.
const (
	PriorityRaw    int32 = -300
	PriorityMangle int32 = -150
	PriorityDstNAT int32 = -100
	PriorityFilter int32 = 0
	PrioritySrcNAT int32 = 100
)

// Base makes a chain one that the kernel calls: at a hook, in order of priority.
type Base struct {
	Type     string // nat, filter or route
	Hook     Hook
	Priority int32
	Drop     bool // the policy is drop instead of accept
}

// Chain is a list of rules; without a Base only other rules go there.
type Chain struct {
	Name  string
	Base  *Base
	Rules []Rule
}

// Rule is a list of expressions: each loads, tests or acts, from left to right, until one does not match.
type Rule struct {
	Exprs   []Expr
	Comment string
}

// R makes a rule of expressions and of lists of expressions.
func R(parts ...any) Rule {
	var r Rule
	for _, p := range parts {
		switch p := p.(type) {
		case Expr:
			r.Exprs = append(r.Exprs, p)
		case []Expr:
			r.Exprs = append(r.Exprs, p...)
		default:
			panic("nft: R takes Expr and []Expr")
		}
	}
	return r
}

// Equal reports whether two rules do the same and say the same.
func (r Rule) Equal(o Rule) bool { return r.Comment == o.Comment && slices.Equal(r.Exprs, o.Exprs) }

// Set is a set, or a map when Data or Verdicts is given. Elements are bytes in the kernel's layout (see Key): the
// concatenated key fields, each padded to 4 bytes. In a set with Interval a key is the lower bound followed by the upper
// bound, both included. The value of a verdict map is the verdict in nft's words ("goto lb-3", "drop").
type Set struct {
	Name     string
	Key      []Type
	Data     []Type
	Verdicts bool
	Interval bool
	// Dynamic sets are filled by rules as packets pass; their elements are not part of the table and are never read.
	Dynamic bool
	Timeout time.Duration // default life of an element; 0 = for ever
	Size    uint32        // of a dynamic set: most elements; 0 = no limit. The kernel makes room for all of them at once
	// Room, of other sets, is for how many elements the kernel makes room at once: it then holds no more, and is filled and
	// read several times faster than one that grows. 0 = it grows. Sets that differ in it have the same shape, but it is
	// made anew where the elements would not fit.
	Room  uint32
	Elems map[string]string

	// List has the elements instead of Elems in a set that is only to be made, each key once: Diff takes it, nothing else.
	List []Elem

	// ask looks a key up in the kernel; set in tables of Look, which have no elements.
	ask func(key string) (string, bool, error)
}

// IsMap reports whether the set maps keys to something.
func (s *Set) IsMap() bool { return len(s.Data) > 0 || s.Verdicts }

// SameShape reports whether two sets differ in elements only.
func (s *Set) SameShape(o *Set) bool {
	return slices.Equal(s.Key, o.Key) && slices.Equal(s.Data, o.Data) && s.Verdicts == o.Verdicts &&
		s.Interval == o.Interval && s.Dynamic == o.Dynamic && s.Timeout == o.Timeout && s.Size == o.Size
}

// Equal reports whether two tables are the same, element by element.
func (t *Table) Equal(o *Table) bool {
	if t == nil || o == nil {
		return t == o
	}
	return t.Family == o.Family && t.Name == o.Name && t.Comment == o.Comment &&
		maps.EqualFunc(t.Chains, o.Chains, (*Chain).equal) && maps.EqualFunc(t.Sets, o.Sets, (*Set).equal)
}

func (c *Chain) equal(o *Chain) bool {
	return c.sameBase(o) && slices.EqualFunc(c.Rules, o.Rules, Rule.Equal)
}

func (c *Chain) sameBase(o *Chain) bool {
	if c.Base == nil || o.Base == nil {
		return c.Base == o.Base
	}
	return *c.Base == *o.Base
}

func (s *Set) equal(o *Set) bool { return s.SameShape(o) && maps.Equal(s.Elems, o.Elems) }

// Tables reads the table of a name in each of the families, by one of the kernel's ways to read. A table that is not there
// is left out, and IPv6 where the kernel lacks it.
func Tables(ctx context.Context, families []Family, name string, how func(context.Context, Family, string) (*Table, error)) (out []*Table, err error) {
	for _, f := range families {
		t, err := how(ctx, f, name)
		if errors.Is(err, errors.ErrUnsupported) && f == IPv6 {
			continue
		}
		if err != nil {
			return nil, err
		}
		if t != nil {
			out = append(out, t)
		}
	}
	return out, nil
}
