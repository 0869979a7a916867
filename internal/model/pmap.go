package model

import (
	"hash/maphash"
	"iter"
	"math/bits"
)

// Map is a persistent hash map (a hash array mapped trie, 32 children a level): Set and Delete return a new Map in
// O(log n) and share all else with the old one, so that two snapshots differ only where the cluster changed. The zero
// Map is empty and ready to use. A Map is safe for concurrent reading. Iteration order is unspecified.
type Map[K comparable, V any] struct {
	root *node[K, V]
	size int
}

const (
	levelBits = 5
	levelMask = 1<<levelBits - 1
	hashBits  = 64
)

// hashSeed is shared by all maps so that equal keys stand at equal places and Diff can walk two tries side by side.
var hashSeed = maphash.MakeSeed()

// node is an inner node (bitmap, children), or below the last level a bucket of colliding entries.
type node[K comparable, V any] struct {
	bitmap   uint32
	children []child[K, V]
}

// child is a leaf (sub == nil) or a subtree.
type child[K comparable, V any] struct {
	sub *node[K, V]
	key K
	val V
}

// Len returns the number of entries.
func (m Map[K, V]) Len() int { return m.size }

// Get returns the value at k and whether there is one.
func (m Map[K, V]) Get(k K) (V, bool) {
	h := maphash.Comparable(hashSeed, k)
	n := m.root
	for shift := uint(0); n != nil; shift += levelBits {
		if shift >= hashBits {
			if i := n.find(k); i >= 0 {
				return n.children[i].val, true
			}
			break
		}
		i, ok := n.index(h >> shift)
		if !ok {
			break
		}
		c := &n.children[i]
		if c.sub == nil {
			if c.key == k {
				return c.val, true
			}
			break
		}
		n = c.sub
	}
	var zero V
	return zero, false
}

// At returns the value at k, or the zero value.
func (m Map[K, V]) At(k K) V {
	v, _ := m.Get(k)
	return v
}

// Set returns a map in which k has the value v.
func (m Map[K, V]) Set(k K, v V) Map[K, V] {
	root, added := m.root.set(maphash.Comparable(hashSeed, k), 0, k, v)
	if added {
		m.size++
	}
	m.root = root
	return m
}

// Delete returns a map without k; the same map when it has no such key.
func (m Map[K, V]) Delete(k K) Map[K, V] {
	root, removed := m.root.delete(maphash.Comparable(hashSeed, k), 0, k)
	if !removed {
		return m
	}
	return Map[K, V]{root: root, size: m.size - 1}
}

// All iterates over the entries in unspecified order.
func (m Map[K, V]) All() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) { m.root.walk(yield) }
}

// Values iterates over the values in unspecified order.
func (m Map[K, V]) Values() iter.Seq[V] {
	return func(yield func(V) bool) {
		m.root.walk(func(_ K, v V) bool { return yield(v) })
	}
}

func (n *node[K, V]) walk(yield func(K, V) bool) bool {
	if n == nil {
		return true
	}
	for i := range n.children {
		c := &n.children[i]
		if c.sub != nil {
			if !c.sub.walk(yield) {
				return false
			}
		} else if !yield(c.key, c.val) {
			return false
		}
	}
	return true
}

// index returns the place of the child for the low bits of h, and whether it is there.
func (n *node[K, V]) index(h uint64) (int, bool) {
	bit := uint32(1) << (h & levelMask)
	return bits.OnesCount32(n.bitmap & (bit - 1)), n.bitmap&bit != 0
}

// find looks for k in a bucket of colliding entries.
func (n *node[K, V]) find(k K) int {
	for i := range n.children {
		if n.children[i].key == k {
			return i
		}
	}
	return -1
}

func (n *node[K, V]) set(h uint64, shift uint, k K, v V) (*node[K, V], bool) {
	leaf := child[K, V]{key: k, val: v}
	if n == nil {
		n = &node[K, V]{}
	}
	if shift >= hashBits {
		if i := n.find(k); i >= 0 {
			return n.replaced(i, leaf), false
		}
		return n.inserted(len(n.children), 0, leaf), true
	}
	i, ok := n.index(h >> shift)
	if !ok {
		return n.inserted(i, uint32(1)<<(h>>shift&levelMask), leaf), true
	}
	c := n.children[i]
	if c.sub == nil && c.key == k {
		return n.replaced(i, leaf), false
	}
	sub, added := c.sub, false
	if sub == nil { // push the leaf that stands here one level down
		sub, _ = sub.set(maphash.Comparable(hashSeed, c.key), shift+levelBits, c.key, c.val)
	}
	sub, added = sub.set(h, shift+levelBits, k, v)
	return n.replaced(i, child[K, V]{sub: sub}), added
}

func (n *node[K, V]) delete(h uint64, shift uint, k K) (*node[K, V], bool) {
	if n == nil {
		return nil, false
	}
	if shift >= hashBits {
		i := n.find(k)
		if i < 0 {
			return n, false
		}
		return n.removed(i, 0), true
	}
	i, ok := n.index(h >> shift)
	if !ok {
		return n, false
	}
	bit := uint32(1) << (h >> shift & levelMask)
	c := n.children[i]
	if c.sub == nil {
		if c.key != k {
			return n, false
		}
		return n.removed(i, bit), true
	}
	sub, removed := c.sub.delete(h, shift+levelBits, k)
	switch {
	case !removed:
		return n, false
	case sub == nil:
		return n.removed(i, bit), true
	case len(sub.children) == 1 && sub.children[0].sub == nil: // one leaf left: pull it up
		return n.replaced(i, sub.children[0]), true
	}
	return n.replaced(i, child[K, V]{sub: sub}), true
}

func (n *node[K, V]) replaced(i int, c child[K, V]) *node[K, V] {
	out := &node[K, V]{bitmap: n.bitmap, children: append([]child[K, V](nil), n.children...)}
	out.children[i] = c
	return out
}

func (n *node[K, V]) inserted(i int, bit uint32, c child[K, V]) *node[K, V] {
	out := &node[K, V]{bitmap: n.bitmap | bit, children: make([]child[K, V], len(n.children)+1)}
	copy(out.children, n.children[:i])
	out.children[i] = c
	copy(out.children[i+1:], n.children[i:])
	return out
}

// removed returns n without child i, or nil when nothing is left.
func (n *node[K, V]) removed(i int, bit uint32) *node[K, V] {
	if len(n.children) == 1 {
		return nil
	}
	out := &node[K, V]{bitmap: n.bitmap &^ bit, children: make([]child[K, V], len(n.children)-1)}
	copy(out.children, n.children[:i])
	copy(out.children[i:], n.children[i+1:])
	return out
}
