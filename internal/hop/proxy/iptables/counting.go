package iptables

import (
	"maps"
	"strings"

	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// counted is what the backend tells metrics.
type counted proxy.IPTablesCounts

func newCounted() counted {
	return counted{map[string]int{}, map[string]int{}, map[proxy.TableFamily]int{}, map[proxy.TableFamily]int{}}
}

// familyName is the family as kube-proxy's metrics have it.
func familyName(f kipt.Family) string {
	if f == kipt.IPv4 {
		return "IPv4"
	}
	return "IPv6"
}

// failed counts a restore that failed.
func (c *counted) failed(f kipt.Family, full bool) {
	c.Failures[familyName(f)]++
	if !full {
		c.PartialFailures[familyName(f)]++
	}
}

// wrote counts the rules of a restore, and those that are there after it.
func (c *counted) wrote(f kipt.Family, edits []*edit, now counts) {
	for _, table := range tables {
		at := proxy.TableFamily{Table: table, Family: familyName(f)}
		c.Written[at], c.Rules[at] = 0, now.rules[table]
	}
	for _, e := range edits {
		c.Written[proxy.TableFamily{Table: e.table, Family: familyName(f)}] += e.rules()
	}
}

// IPTablesCounts implements proxy.IPTablesCounter.
func (b *Backend) IPTablesCounts() proxy.IPTablesCounts {
	c := b.counted
	return proxy.IPTablesCounts{Failures: maps.Clone(c.Failures), PartialFailures: maps.Clone(c.PartialFailures), Rules: maps.Clone(c.Rules), Written: maps.Clone(c.Written)}
}

// rules counts the rules that the edit puts in.
func (e *edit) rules() (n int) {
	for _, body := range e.set {
		n += strings.Count(body, "\n")
	}
	for _, l := range e.lines {
		if l.op != 'D' {
			n++
		}
	}
	return n
}

// rules counts those of a table that are some Services' own.
func (s *sheet) rules(table string) (n int) {
	for _, body := range s.chains[table] {
		n += strings.Count(body, "\n")
	}
	for l, rules := range s.lists {
		if l.table == table {
			n += len(rules)
		}
	}
	return n
}

// rulesOf counts all rules of each table.
func rulesOf(all []*kipt.Table) map[string]int {
	out := map[string]int{}
	for _, t := range all {
		for _, body := range t.Chains {
			out[t.Name] += strings.Count(body, "\n")
		}
	}
	return out
}
