package model

import "math/bits"

// Changed calls f for each key whose value differs between the two maps by ==, added and removed ones included. Its
// cost is that of what differs: subtrees that the maps share are passed over.
func Changed[K comparable, V comparable](old, new Map[K, V], f func(K)) {
	diffNodes(old.root, new.root, f)
}

func diffNodes[K comparable, V comparable](a, b *node[K, V], f func(K)) {
	if a == b {
		return
	}
	if a == nil || b == nil || a.bitmap == 0 || b.bitmap == 0 {
		diffEntries(a, b, f)
		return
	}
	for bit, all := uint32(1), a.bitmap|b.bitmap; all != 0; bit <<= 1 {
		if all&bit == 0 {
			continue
		}
		all &^= bit
		diffChildren(a.child(bit), b.child(bit), f)
	}
}

func diffChildren[K comparable, V comparable](a, b *child[K, V], f func(K)) {
	if a != nil && b != nil && a.sub != nil && b.sub != nil {
		diffNodes(a.sub, b.sub, f)
		return
	}
	if (a == nil || a.sub == nil) && (b == nil || b.sub == nil) {
		diffLeaves(a, b, f)
		return
	}
	diffEntries(a.asNode(), b.asNode(), f)
}

// diffLeaves compares two entries, either of which may be missing.
func diffLeaves[K comparable, V comparable](a, b *child[K, V], f func(K)) {
	if a != nil && b != nil && a.key == b.key {
		if a.val != b.val {
			f(a.key)
		}
		return
	}
	if a != nil {
		f(a.key)
	}
	if b != nil {
		f(b.key)
	}
}

// diffEntries compares entry by entry; one side is a leaf, empty, or a bucket of colliding entries.
func diffEntries[K comparable, V comparable](a, b *node[K, V], f func(K)) {
	was := map[K]V{}
	a.walk(func(k K, v V) bool { was[k] = v; return true })
	b.walk(func(k K, v V) bool {
		if old, ok := was[k]; !ok || old != v {
			f(k)
		}
		delete(was, k)
		return true
	})
	for k := range was {
		f(k)
	}
}

func (n *node[K, V]) child(bit uint32) *child[K, V] {
	if n.bitmap&bit == 0 {
		return nil
	}
	i, _ := n.index(uint64(bits.TrailingZeros32(bit)))
	return &n.children[i]
}

func (c *child[K, V]) asNode() *node[K, V] {
	switch {
	case c == nil:
		return nil
	case c.sub != nil:
		return c.sub
	}
	return &node[K, V]{children: []child[K, V]{*c}}
}
