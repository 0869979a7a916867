// Package iptables is the door to the kernel's iptables tables: it runs iptables-restore, iptables-save and iptables -S,
// reads what they print, and evaluates rules for one packet. It owns no table, no chain and no rule, and knows nothing of
// Services. Rules are text as iptables-save prints it, on both variants of the tools the same.
package iptables

import (
	"context"
	"strconv"
	"strings"
)

// Family is an address family: each has tables of its own.
type Family uint8

// The families.
const (
	IPv4 Family = iota
	IPv6
)

// Families are all of them, in the order in which they are written.
var Families = []Family{IPv4, IPv6}

// String is the name of the family's command.
func (f Family) String() string {
	if f == IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// The tables.
const (
	NAT    = "nat"
	Filter = "filter"
	Mangle = "mangle"
)

// Stamp tells one state of a host's tables from others: as long as two are equal, nobody wrote in between. "" is unknown
// and equals nothing.
type Stamp string

// After is the stamp that follows s when so many COMMITs were written and nobody else wrote; "" where that cannot be known.
func (s Stamp) After(commits int) Stamp {
	kind, number, _ := strings.Cut(string(s), " ")
	n, err := strconv.ParseUint(number, 10, 32)
	if err != nil {
		return ""
	}
	return Stamp(kind + " " + strconv.FormatUint(n+uint64(commits), 10))
}

// Door is the way to the tables of one network namespace. Its methods may be called from any goroutine.
type Door interface {
	// Restore runs iptables-restore --noflush with the input, which may have several tables and several COMMITs. Each
	// COMMIT is carried out as a whole or not at all, one after the other until one fails.
	Restore(ctx context.Context, f Family, input []byte) error
	// Read returns what is of a program in a table: the chains that ours accepts, and of the kernel's own chains
	// (PREROUTING and others) the rules that jump to one of those. A table that is not there has no chains.
	Read(ctx context.Context, f Family, table string, ours func(chain string) bool) (*Table, error)
	// Look returns a function that reads the rules of one chain after the other, for one question: a chain that is not
	// there has none. Of the kernel's own chains it reads the rules that jump to one that ours accepts.
	Look(ctx context.Context, f Family, ours func(chain string) bool) func(table, chain string) (rules string, exists bool, err error)
	// Stamp returns the stamp of the tables nat and filter of both families, cheaply.
	Stamp(ctx context.Context) (Stamp, error)
	// Has reports whether the kernel and the tools know the family at all.
	Has(f Family) bool
	// Chunk is how many chains one COMMIT should name at most, 0 for no bound: the tools' time grows with its square.
	Chunk() int
}

// Table is what is of interest of one table.
type Table struct {
	Family Family
	Name   string
	// Chains are the rules of each chain, a line each as iptables-save prints them ("-A CHAIN ...\n").
	Chains map[string]string
}

// Parse reads a table from what iptables-save printed. It keeps the chains that ours accepts, and of the kernel's own
// chains (PREROUTING and others) the rules that jump to one of those; all else is skipped.
func Parse(f Family, name, text string, ours func(chain string) bool) *Table {
	t := &Table{Family: f, Name: name, Chains: map[string]string{}}
	builtin := map[string]bool{}
	for len(text) > 0 {
		line, rest := cutLine(text)
		switch line[0] {
		case ':':
			chain, more, _ := strings.Cut(line[1:], " ")
			switch {
			case ours(chain):
				t.Chains[chain] = ""
			case !strings.HasPrefix(more, "-"):
				builtin[chain] = true
			}
		case '-':
			chain := chainOf(line)
			switch {
			case ours(chain):
				body, after := block(text, chain)
				t.Chains[chain] += body
				rest = after
			case builtin[chain] && ours(targetOf(line)):
				t.Chains[chain] += line
			}
		}
		text = rest
	}
	return t
}

// cutLine returns the first line with its newline, and the rest. text is not empty.
func cutLine(text string) (line, rest string) {
	if i := strings.IndexByte(text, '\n'); i >= 0 {
		return text[:i+1], text[i+1:]
	}
	return text + "\n", ""
}

// chainOf is the chain that a rule is in: "-A CHAIN ...".
func chainOf(line string) string {
	if !strings.HasPrefix(line, "-A ") {
		return ""
	}
	chain := line[3:]
	if i := strings.IndexAny(chain, " \n"); i >= 0 {
		chain = chain[:i]
	}
	return chain
}

// block is the run of rules of one chain at the beginning of the text: iptables-save prints a chain's rules together.
func block(text, chain string) (body, rest string) {
	end := 0
	for end < len(text) && chainOf(text[end:]) == chain {
		i := strings.IndexByte(text[end:], '\n')
		if i < 0 {
			return text + "\n", ""
		}
		end += i + 1
	}
	return text[:end], text[end:]
}

// targetOf is where a rule jumps to.
func targetOf(line string) string {
	r, err := ParseRule(line)
	if err != nil {
		return ""
	}
	return r.Target
}

// Lines calls f for each rule of a chain, newline included.
func Lines(body string, f func(line string)) {
	for len(body) > 0 {
		line, rest := cutLine(body)
		f(line)
		body = rest
	}
}
