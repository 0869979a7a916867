package model

import "hash/maphash"

// MapOf returns a Map with the entries of m. It costs a fraction of setting them one by one, because no state between is
// kept.
func MapOf[K comparable, V any](m map[K]V) Map[K, V] {
	if len(m) == 0 {
		return Map[K, V]{}
	}
	root := &node[K, V]{}
	for k, v := range m {
		root.put(maphash.Comparable(hashSeed, k), 0, child[K, V]{key: k, val: v})
	}
	return Map[K, V]{root: root, size: len(m)}
}

// put adds a leaf with a new key in place; n must not be shared yet.
func (n *node[K, V]) put(h uint64, shift uint, leaf child[K, V]) {
	if shift >= hashBits {
		n.children = append(n.children, leaf)
		return
	}
	i, ok := n.index(h >> shift)
	if !ok {
		n.bitmap |= 1 << (h >> shift & levelMask)
		n.children = append(n.children, child[K, V]{})
		copy(n.children[i+1:], n.children[i:])
		n.children[i] = leaf
		return
	}
	c := &n.children[i]
	if c.sub == nil { // push the leaf that stands here one level down
		old := *c
		*c = child[K, V]{sub: &node[K, V]{}}
		c.sub.put(maphash.Comparable(hashSeed, old.key), shift+levelBits, old)
	}
	c.sub.put(h, shift+levelBits, leaf)
}
