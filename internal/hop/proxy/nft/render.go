package nft

import (
	"net/netip"
	"slices"
	"strings"

	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
)

// Render implements proxy.Backend.
func (b *Backend) Render(p *proxy.Plan) proxy.Ruleset { return Render(p) }

// Render returns the tables that a plan wants: ip, and ip6 if the node or a Service has an IPv6 address.
func Render(p *proxy.Plan) *Ruleset {
	r := &Ruleset{node: p.Node}
	for _, f := range families {
		if t := render(p, f, collect(p, f, false)); t != nil {
			r.tables = append(r.tables, t)
		}
	}
	return r
}

// collect gathers the elements of all Services, as lists when the table is only to be made: a map costs as much as the rest.
func collect(p *proxy.Plan, f knft.Family, asList bool) *elements {
	n := p.Services.Len()
	e := newElements(f, n).hold(n, asList)
	for s := range p.Services.Values() {
		e.add(s)
	}
	numbers, moved := words(e.classes)
	if !moved {
		return e
	}
	again := newElements(f, n).hold(n, asList)
	again.words = numbers
	for s := range p.Services.Values() {
		again.add(s)
	}
	return again
}

// wanted reports whether a family has a table at all.
func wanted(p *proxy.Plan, f knft.Family, ports int) bool {
	if f == knft.IPv4 || ports > 0 || len(p.LocalPods(false).In) > 0 {
		return true
	}
	return slices.ContainsFunc(p.Node.Addrs, netip.Addr.Is6)
}

// render makes one family's table, or nil when it has none.
func render(p *proxy.Plan, f knft.Family, e *elements) *knft.Table {
	if !wanted(p, f, e.ports) {
		return nil
	}
	t := knft.NewTable(f, tableName)
	t.Comment = comment
	base(t, p)
	for _, s := range shapes(f) {
		t.AddSet(s)
		if elems := e.sets[s.Name]; elems != nil {
			s.Elems = elems
		}
		s.List = e.lists[s.Name]
	}
	remembers := false
	for c := range e.classes {
		e.class(t, c, p)
		remembers = remembers || c.affinity > 0
	}
	if remembers {
		t.AddSet(affinitySets(f, e)...)
	}
	for name, addrs := range e.shared {
		for a := range addrs {
			t.Sets[name].Elems[sharedKey(name, a)] = ""
		}
	}
	for _, a := range p.Node.Addrs {
		if a.Is4() == e.is4 && !a.IsLoopback() {
			t.Sets[nodeAddrs].Elems[string(a.AsSlice())] = ""
		}
	}
	for _, s := range t.Sets {
		if s.Room > 0 {
			s.Room = roomFor(s.Count())
		}
	}
	return t
}

// roomFor is for how many elements a set is made: twice as many as it has at least, a power of two. When they become more,
// it is made anew.
func roomFor(n int) uint32 {
	room := uint32(leastRoom)
	for room < 2*uint32(n) {
		room *= 2
	}
	return room
}

const leastRoom = 2048

// class puts the chain of a class and its elements of the two verdict maps into a table.
func (e *elements) class(t *knft.Table, c class, p *proxy.Plan) {
	if !c.fixed() {
		t.AddChain(&knft.Chain{Name: c.chain(), Rules: c.rules(t.Family, &p.Node)})
	}
	e.verdicts(t, c, p)
}

func (e *elements) verdicts(t *knft.Table, c class, p *proxy.Plan) {
	key := knft.Key{}.Mark(e.word(c)).String()
	t.Sets[dispatch].Elems[key] = knft.To(c.chain()).String()
	if !c.refuse && !c.none {
		t.Sets[masquerade].Elems[key] = c.masquerade(p, e.is4).String()
	}
}

// sharedKey is the key of an address in a set of addresses: in hairpin it stands twice, as source and destination.
func sharedKey(set string, a netip.Addr) string {
	if set == hairpin {
		return strings.Repeat(string(a.AsSlice()), 2)
	}
	return string(a.AsSlice())
}

// shapes are the sets that are always there, empty.
func shapes(f knft.Family) []*knft.Set {
	addr := knft.AddrType(f)
	front := []knft.Type{addr, knft.Proto, knft.Service}
	number := []knft.Type{knft.Mark}
	sets := []*knft.Set{
		{Name: services, Key: front, Data: number, Room: leastRoom},
		{Name: endpoints, Key: with(front, knft.Mark), Data: []knft.Type{addr, knft.Service}, Room: leastRoom},
		{Name: clusterIPs, Key: []knft.Type{addr}, Room: leastRoom},
		{Name: hairpin, Key: []knft.Type{addr, addr}, Room: leastRoom},
		{Name: nodeAddrs, Key: []knft.Type{addr}},
		{Name: sources, Key: with(front, addr), Interval: true},
		{Name: dispatch, Key: number, Verdicts: true},
		{Name: masquerade, Key: number, Verdicts: true},
	}
	for _, s := range sets {
		s.Elems = map[string]string{}
	}
	return sets
}

func with(ts []knft.Type, more knft.Type) []knft.Type { return append(slices.Clone(ts), more) }

// affinitySets are there only while a Service wants affinity.
func affinitySets(f knft.Family, e *elements) []*knft.Set {
	addr := knft.AddrType(f)
	front := []knft.Type{addr, knft.Proto, knft.Service}
	number := []knft.Type{knft.Mark}
	sets := []*knft.Set{
		{Name: affinity, Key: []knft.Type{addr, knft.Mark}, Data: number, Dynamic: true, Size: affinitySize},
		{Name: owners, Key: front, Data: number},
		{Name: tokens, Key: with(front, knft.Mark), Data: number},
		{Name: sticky, Key: with(front, knft.Mark), Data: []knft.Type{addr, knft.Service}},
		{Name: stickyLocal, Key: with(front, knft.Mark), Data: []knft.Type{addr, knft.Service}},
	}
	for _, s := range sets {
		if s.Elems = e.sets[s.Name]; s.Elems == nil {
			s.Elems = map[string]string{}
		}
		s.List = e.lists[s.Name]
		if !s.Dynamic {
			s.Room = roomFor(s.Count())
		}
	}
	return sets
}
