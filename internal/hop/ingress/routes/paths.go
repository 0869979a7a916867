package routes

import (
	"slices"
	"strings"
)

// paths are the paths of one host, sorted so that all below a prefix stand right behind it. The longest prefix of a path
// is then found with one binary search and a few steps upwards, in memory that lies together: with many hosts, cache
// misses are what a lookup costs.
type paths []place

// place is a path with the routes that it has.
type place struct {
	path   string // canonical; a prefix has no final slash, so "/" is ""
	parent int32  // the place of the next shorter prefix, -1 = none
	exact  *Route
	prefix *Route
}

// find returns the route of a canonical path: the exact one, or that of the longest prefix, nil when there is none.
func (p paths) find(path string) *Route {
	at, same := p.search(path)
	if same && p[at].exact != nil {
		return p[at].exact
	}
	if !same {
		at-- // the last one before the path: the prefixes of the path are above it, if it is none itself
	}
	if at < 0 {
		return nil
	}
	for i, common := int32(at), commonLen(p[at].path, path); i >= 0; i = p[i].parent {
		n := len(p[i].path)
		if p[i].prefix != nil && n <= common && (n == len(path) || path[n] == '/') {
			return p[i].prefix
		}
	}
	return nil
}

func (p paths) search(path string) (int, bool) {
	return slices.BinarySearchFunc(p, path, func(x place, path string) int { return comparePaths(x.path, path) })
}

// comparePaths orders by bytes, with the slash before all others.
func comparePaths(a, b string) int {
	n := commonLen(a, b)
	switch {
	case n == len(a) || n == len(b):
		return len(a) - len(b)
	case a[n] == '/':
		return -1
	case b[n] == '/':
		return 1
	}
	return int(a[n]) - int(b[n])
}

func commonLen(a, b string) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// pathsOf sorts the places and links each to the prefix above it. Their paths come to lie side by side.
func pathsOf(places map[string]*place) paths {
	out := make(paths, 0, len(places))
	for _, x := range places {
		out = append(out, *x)
	}
	slices.SortFunc(out, func(a, b place) int { return comparePaths(a.path, b.path) })
	var all strings.Builder
	for _, x := range out {
		all.WriteString(x.path)
	}
	rest := all.String()
	last := int32(-1) // the innermost prefix that may hold what comes next
	for i := range out {
		x := &out[i]
		x.path, rest = rest[:len(x.path)], rest[len(x.path):]
		for last >= 0 && !below(x.path, out[last].path) {
			last = out[last].parent
		}
		x.parent = last
		if x.prefix != nil {
			last = int32(i)
		}
	}
	return out
}

// below reports whether a path lies below a prefix, by whole elements.
func below(path, prefix string) bool {
	return strings.HasPrefix(path, prefix) && (len(path) == len(prefix) || path[len(prefix)] == '/')
}

// each calls f for the routes in the order in which they are tried: exact ones, then prefixes from the longest.
func (p paths) each(f func(*Route)) {
	for i := range p {
		if p[i].exact != nil {
			f(p[i].exact)
		}
	}
	longest := slices.Clone(p)
	slices.SortStableFunc(longest, func(a, b place) int { return len(b.path) - len(a.path) })
	for i := range longest {
		if longest[i].prefix != nil {
			f(longest[i].prefix)
		}
	}
}
