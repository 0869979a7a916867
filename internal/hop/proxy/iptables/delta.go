package iptables

import (
	"maps"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// counts are what must be known of all Services to change some of them.
type counts struct {
	ports  int
	blocks map[netip.Prefix]int
	rules  map[string]int // by table, those between the rules of Services too
}

func (s *sheet) counts(all []*kipt.Table) counts { return counts{s.ports, s.blocks, rulesOf(all)} }

// after is what the counts are when some Services change.
func (c counts) after(was, now *sheet) counts {
	out := counts{c.ports + now.ports - was.ports, c.blocks, map[string]int{}}
	for _, t := range tables {
		out.rules[t] = c.rules[t] + now.rules(t) - was.rules(t)
	}
	if len(was.blocks) == 0 && len(now.blocks) == 0 {
		return out
	}
	out.blocks = maps.Clone(c.blocks)
	for b, n := range was.blocks {
		out.blocks[b] -= n
	}
	for b, n := range now.blocks {
		out.blocks[b] += n
	}
	maps.DeleteFunc(out.blocks, func(_ netip.Prefix, n int) bool { return n == 0 })
	return out
}

// sameBlocks reports whether two counts are of the same ranges of ClusterIPs.
func (c counts) sameBlocks(o counts) bool {
	if len(c.blocks) != len(o.blocks) {
		return false
	}
	for b := range c.blocks {
		if o.blocks[b] == 0 {
			return false
		}
	}
	return true
}

// step is what makes the rules of some Services those that they want now.
func step(was, now *sheet) []*edit {
	var out []*edit
	for _, table := range tables {
		e := &edit{table: table, set: map[string]string{}}
		for chain, rules := range now.chains[table] {
			if old, there := was.chains[table][chain]; !there || old != rules {
				e.set[chain] = rules
			}
		}
		for chain := range was.chains[table] {
			if _, there := now.chains[table][chain]; !there {
				e.gone = append(e.gone, chain)
			}
		}
		out = append(out, e)
	}
	for _, l := range lists {
		a, b := was.lists[l], now.lists[l]
		slices.Sort(a)
		slices.Sort(b)
		gone, more := compare(a, b)
		e := out[slices.Index(tables, l.table)]
		put := byte('I')
		if l == notServedPorts {
			put = 'A'
		}
		for _, r := range gone {
			e.lines = append(e.lines, line{'D', r})
		}
		for _, r := range more {
			e.lines = append(e.lines, line{put, r})
		}
	}
	return out
}

var lists = []list{natServices, natNodePorts, notServed, notServedFar, notServedPorts, notAllowed, healthPorts, otherPorts}

// sheetOf is what some Services want.
func sheetOf(p *proxy.Plan, f kipt.Family, services []*proxy.Service) *sheet {
	s := newSheet(p, f, len(services))
	for _, svc := range services {
		s.add(svc)
	}
	return s
}
