package iptables

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
)

// script is the input of iptables-restore that carries out the edits. One COMMIT names at most chunk chains, 0 = no bound:
// more are written in several, chains before those that jump to them, so that in between each Service has its old rules or
// its new ones.
func script(edits []*edit, chunk int) []byte {
	var b bytes.Buffer
	for _, e := range edits {
		if e.changes() > 0 {
			e.write(&b, chunk)
		}
	}
	return b.Bytes()
}

func (e *edit) write(b *bytes.Buffer, chunk int) {
	set := slices.SortedFunc(maps.Keys(e.set), func(x, y string) int { return cmp.Or(cmp.Compare(rank(x), rank(y)), -cmp.Compare(x, y)) })
	gone := slices.SortedFunc(slices.Values(e.gone), func(x, y string) int { return cmp.Or(-cmp.Compare(rank(x), rank(y)), -cmp.Compare(x, y)) })
	if n := len(set) + len(gone); chunk == 0 || e.names(set)+len(gone)+len(e.lines) <= chunk || n == 0 {
		e.section(b, set, e.lines, gone)
		return
	}
	for len(set) > 0 {
		n := e.fit(set, chunk)
		e.section(b, set[:n], nil, nil)
		set = set[n:]
	}
	e.section(b, nil, e.lines, nil)
	for part := range slices.Chunk(gone, chunk) {
		e.section(b, nil, nil, part)
	}
}

// names counts the chains that are named when some are written: each, and where its rules lead.
func (e *edit) names(set []string) int {
	n := 0
	for _, chain := range set {
		n += e.size(chain)
	}
	return n
}

// size counts the chains that are named when one is written. All rules of a list name chains too, but those come in
// their order, which costs nothing.
func (e *edit) size(chain string) int {
	return 1 + bytes.Count([]byte(e.set[chain]), []byte(" -j KUBE-S"))
}

// fit is how many of the chains go into one COMMIT, at least one. They are of one rank: a COMMIT that makes a chain and
// fills another that jumps to it would be right as well, but longer to look up in.
func (e *edit) fit(set []string, chunk int) int {
	n, room := 0, chunk
	for n < len(set) && rank(set[n]) == rank(set[0]) {
		if room -= e.size(set[n]); room < 0 && n > 0 {
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
	b.WriteString("*" + e.table + "\n")
	for _, list := range [][]string{set, gone} {
		for _, chain := range list {
			b.WriteString(":" + chain + " - [0:0]\n")
		}
	}
	for _, chain := range set {
		b.WriteString(e.set[chain])
	}
	for _, l := range lines {
		b.WriteByte('-')
		b.WriteByte(l.op)
		b.WriteString(l.rule[2:])
	}
	for _, chain := range gone {
		b.WriteString("-X " + chain + "\n")
	}
	b.WriteString("COMMIT\n")
}
