package iptables

import (
	"bytes"
	"slices"
	"strings"
)

// script is the input of iptables-restore that carries out the edits. One COMMIT names at most chunk chains, 0 = no bound:
// more are written in several, chains before those that jump to them, so that in between each Service has its old rules or
// its new ones.
func script(edits []*edit, chunk int) []byte {
	var b bytes.Buffer
	n := 0
	for _, e := range edits {
		n += e.bytes()
	}
	b.Grow(n)
	for _, e := range edits {
		if len(e.set)+len(e.lines)+len(e.gone) > 0 {
			e.write(&b, chunk)
		}
	}
	return b.Bytes()
}

// bytes is about how long the edit's part of the script is.
func (e *edit) bytes() int {
	n := 40*len(e.set) + 80*len(e.gone)
	for _, body := range e.set {
		n += len(body)
	}
	for _, l := range e.lines {
		n += len(l.rule)
	}
	return n
}

// ranks are the names of chains by their rank, those of one rank from the last by name to the first: the tools keep what a
// COMMIT has named in a list in order, and find the first of it at once.
type ranks [8][]string

func ranked(chains func(yield func(string) bool)) *ranks {
	var out ranks
	for chain := range chains {
		r := rank(chain)
		out[r] = append(out[r], chain)
	}
	for _, list := range out {
		slices.Sort(list)
		slices.Reverse(list)
	}
	return &out
}

func (e *edit) setNames(yield func(string) bool) {
	for chain := range e.set {
		if !yield(chain) {
			return
		}
	}
}

// many is how many times more chains go into a COMMIT where each is written and left behind before the next.
const many = 16

func (e *edit) write(b *bytes.Buffer, chunk int) {
	set, gone := ranked(e.setNames), ranked(slices.Values(e.gone))
	slices.Reverse(gone[:])
	if chunk == 0 || e.named(set, chunk)+len(e.gone)+len(e.lines) <= chunk {
		e.section(b, slices.Concat(set[:]...), e.lines, slices.Concat(gone[:]...))
		return
	}
	for r, chains := range set {
		for len(chains) > 0 {
			n := e.fit(chains, chunk)
			if r == 1 { // endpoints: no chain of the COMMIT leads to another
				n = min(many*chunk, len(chains))
				e.oneByOne(b, chains[:n], func(chain string) { b.WriteString(e.set[chain]) })
			} else {
				e.section(b, chains[:n], nil, nil)
			}
			chains = chains[n:]
		}
	}
	e.section(b, nil, e.lines, nil)
	for _, chains := range gone {
		for part := range slices.Chunk(chains, many*chunk) {
			e.oneByOne(b, part, func(chain string) { remove(b, chain) })
		}
	}
}

// oneByOne writes a COMMIT in which each chain is made or emptied and filled or deleted before the next.
func (e *edit) oneByOne(b *bytes.Buffer, chains []string, then func(chain string)) {
	if len(chains) == 0 {
		return
	}
	e.begin(b)
	for _, chain := range chains {
		empty(b, chain)
		then(chain)
	}
	b.WriteString("COMMIT\n")
}

// named counts the chains that are named when some are written: each, and where its rules lead. It stops when there are
// more than so many.
func (e *edit) named(set *ranks, most int) int {
	n := 0
	for _, chains := range set {
		for _, chain := range chains {
			if n += e.size(chain); n > most {
				return n
			}
		}
	}
	return n
}

// size counts the chains that are named when one is written.
func (e *edit) size(chain string) int { return 1 + strings.Count(e.set[chain], "\n") }

// fit is how many of the chains go into one COMMIT, at least one.
func (e *edit) fit(chains []string, chunk int) int {
	n, room := 0, chunk
	for n < len(chains) {
		if room -= e.size(chains[n]); room < 0 && n > 0 {
			break
		}
		n++
	}
	return n
}

// section writes one COMMIT.
func (e *edit) section(b *bytes.Buffer, set []string, lines []line, gone []string) {
	if len(set)+len(lines)+len(gone) == 0 {
		return
	}
	e.begin(b)
	for _, list := range [][]string{set, gone} {
		for _, chain := range list {
			empty(b, chain)
		}
	}
	for _, chain := range set {
		if isList(e.table, chain) && len(e.set[chain]) > long {
			byTarget(b, e.set[chain])
		} else {
			b.WriteString(e.set[chain])
		}
	}
	for _, l := range lines {
		b.WriteByte('-')
		b.WriteByte(l.op)
		b.WriteString(l.rule[2:])
	}
	for _, chain := range gone {
		remove(b, chain)
	}
	b.WriteString("COMMIT\n")
}

func (e *edit) begin(b *bytes.Buffer) {
	b.WriteString("*")
	b.WriteString(e.table)
	b.WriteString("\n")
}

// empty makes a chain or empties it.
func empty(b *bytes.Buffer, chain string) {
	b.WriteString(":")
	b.WriteString(chain)
	b.WriteString(" - [0:0]\n")
}

func remove(b *bytes.Buffer, chain string) {
	b.WriteString("-X ")
	b.WriteString(chain)
	b.WriteString("\n")
}

// long is from how many letters on a list is written in an order that the tools like.
const long = 1 << 16

// byTarget writes the rules of a list in the order of where they lead to, the last by name first.
func byTarget(b *bytes.Buffer, body string) {
	first, last := split(body)
	target := func(r string) string { return r[strings.LastIndex(r, " -j "):] }
	slices.SortStableFunc(first, func(x, y string) int { return strings.Compare(target(y), target(x)) })
	for _, r := range first {
		b.WriteString(r)
	}
	for _, r := range last {
		b.WriteString(r)
	}
}
