// Package maglev computes the tables by which a client's address alone chooses an endpoint (Eisenbud et al., "Maglev: A Fast
// and Reliable Software Network Load Balancer", NSDI 2016): the same on every node, and nearly the same when endpoints come
// and go. It owns the order of the choice only; how a table gets into the kernel is a backend's matter. All backends take
// the slot from the same hash, which is one that the kernel's nf_tables can compute.
package maglev

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"

	"github.com/podway/podway/internal/kernel/nft"
)

// sizes are the numbers of slots that a table may have, all prime. A table has ten slots for each endpoint at least, so that
// shares differ by a tenth at most; there are few sizes, because another size leads most clients elsewhere.
var sizes = []int{1021, 8191, 65521}

// Size is the number of slots for so many endpoints.
func Size(endpoints int) int {
	for _, s := range sizes {
		if endpoints*10 <= s {
			return s
		}
	}
	return sizes[len(sizes)-1]
}

// Seed is what the hash of a client's address begins with.
const Seed = 0x70776179

// Slot is the slot of a client in a table of size slots: the kernel's jhash of the address's 4 or 16 bytes with Seed, scaled
// to the size.
func Slot(client netip.Addr, size int) int {
	return int(uint64(nft.JHash(client.AsSlice(), Seed)) * uint64(size) >> 32)
}

// Table gives each of Size(len(endpoints)) slots the index of an endpoint. The endpoints must be different, ordered, and at
// most 65,521. It returns nil for none.
func Table(endpoints []netip.AddrPort) []uint16 {
	if len(endpoints) == 0 {
		return nil
	}
	size := Size(len(endpoints))
	walks := make([]walk, len(endpoints))
	for i, e := range endpoints {
		walks[i] = walkOf(e, uint64(size))
	}
	out, taken := make([]uint16, size), make([]bool, size)
	for filled := 0; ; {
		for i := range walks {
			w := &walks[i]
			for taken[w.at] {
				w.at = (w.at + w.skip) % uint64(size)
			}
			out[w.at], taken[w.at] = uint16(i), true
			if filled++; filled == size {
				return out
			}
		}
	}
}

// walk is the order in which an endpoint wishes for slots.
type walk struct{ at, skip uint64 }

func walkOf(e netip.AddrPort, size uint64) walk {
	h := fnv.New64a()
	h.Write(e.Addr().AsSlice())
	_ = binary.Write(h, binary.BigEndian, e.Port()) // a hash takes everything
	a := mix(h.Sum64())
	return walk{at: a % size, skip: mix(a)%(size-1) + 1}
}

// mix spreads a number over all its bits (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
