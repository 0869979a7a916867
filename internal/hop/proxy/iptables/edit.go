package iptables

import (
	"slices"
	"strings"

	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// edit is what is to be written to one table.
type edit struct {
	table string
	set   map[string]string // chain -> all its rules; the chain is made or emptied first
	gone  []string          // chains to delete
	lines []line            // single rules of chains that are there
}

// line is one rule to be added or deleted.
type line struct {
	op   byte // 'D' delete, 'I' put first, 'A' put last
	rule string
}

// changes counts the rules and chains that the edit writes.
func (e *edit) changes() int {
	n := len(e.gone) + len(e.lines)
	for _, body := range e.set {
		n += 1 + strings.Count(body, "\n")
	}
	return n
}

// difference is what makes have into want.
func difference(have, want *kipt.Table) *edit {
	e := &edit{table: want.Name, set: map[string]string{}}
	for chain, rules := range want.Chains {
		old, there := have.Chains[chain]
		switch {
		case there && old == rules:
		case !owned(chain):
			e.jumps(old, rules)
		case there && isList(want.Name, chain) && e.few(old, rules):
		default:
			e.set[chain] = rules
		}
	}
	for chain, rules := range have.Chains {
		if _, wanted := want.Chains[chain]; wanted {
			continue
		}
		if owned(chain) {
			e.gone = append(e.gone, chain)
		} else {
			e.jumps(rules, "")
		}
	}
	return e
}

func isList(table, chain string) bool {
	switch (list{table, chain}) {
	case natServices, natNodePorts, notServed, notServedFar, notAllowed, healthPorts, otherPorts:
		return true
	}
	return false
}

// jumps puts the rules that are missing in a chain of the kernel's first, and deletes what is too much. The rules of others
// between them stay where they are.
func (e *edit) jumps(have, want string) {
	left := map[string]int{}
	kipt.Lines(have, func(r string) { left[r]++ })
	var add []line
	kipt.Lines(want, func(r string) {
		if left[r] > 0 {
			left[r]--
			return
		}
		add = append(add, line{'I', r})
	})
	kipt.Lines(have, func(r string) {
		if left[r] > 0 {
			left[r]--
			e.lines = append(e.lines, line{'D', r})
		}
	})
	slices.Reverse(add)
	e.lines = append(e.lines, add...)
}

// few changes single rules of a list when it is a small part that differs and the rules after it are the same.
func (e *edit) few(have, want string) bool {
	haveFirst, haveLast := split(have)
	wantFirst, wantLast := split(want)
	if !slices.Equal(haveLast, wantLast) {
		return false
	}
	gone, more := compare(haveFirst, wantFirst)
	if len(gone)+len(more) > 16+len(wantFirst)/16 {
		return false
	}
	for _, r := range gone {
		e.lines = append(e.lines, line{'D', r})
	}
	for _, r := range more {
		e.lines = append(e.lines, line{'I', r})
	}
	return true
}

// split takes the rules of Services and those behind them apart.
func split(body string) (first, last []string) {
	kipt.Lines(body, func(r string) {
		if isLate(r) {
			last = append(last, r)
		} else {
			first = append(first, r)
		}
	})
	return first, last
}

// isLate reports whether a rule of a list is none that stands in any order.
func isLate(r string) bool {
	return strings.Contains(r, lastRule) || strings.Contains(r, "--dst-type LOCAL") ||
		strings.Contains(r, " -j "+clusterIPs) || strings.Contains(r, "unallocated cluster IP")
}

// compare returns what only one of two sorted lists has.
func compare(a, b []string) (onlyA, onlyB []string) {
	for len(a) > 0 && len(b) > 0 {
		switch strings.Compare(a[0], b[0]) {
		case 0:
			a, b = a[1:], b[1:]
		case -1:
			onlyA, a = append(onlyA, a[0]), a[1:]
		default:
			onlyB, b = append(onlyB, b[0]), b[1:]
		}
	}
	return append(onlyA, a...), append(onlyB, b...)
}

// ordered puts the rules of a list in the order of their letters, as far as that says the same: a late rule before others
// does not.
func ordered(table, chain, body string) string {
	first, last := split(body)
	if len(last) > 0 && strings.Join(first, "")+strings.Join(last, "") != body {
		return body
	}
	slices.Sort(first)
	if (list{table, chain}) == notServedFar {
		slices.Sort(last) // node ports
	}
	return strings.Join(first, "") + strings.Join(last, "")
}
