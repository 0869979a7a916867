// Package cache keeps answers by their whole question, bounded in number and bytes. Looking one up takes no lock and
// allocates nothing. When it is full, what was asked for only once goes first (S3-FIFO), so that a flood of random names
// does not wash out the names in use. It knows neither clients nor servers.
package cache

import (
	"hash/maphash"
	"math/bits"
	"sync/atomic"

	"github.com/podway/podway/internal/hop/dns/upstream/packet"
)

// Key is a whole question; nothing of it is folded into a hash that another question could share.
type Key struct {
	Name   []byte // wire format, lower case; borrowed for a look-up, kept by an Entry
	Type   uint16 // the class is IN
	DO, CD bool
}

// entryOverhead is what an entry takes beside its name and answer, with its share of the table.
const entryOverhead = 128

// maxUses is where an entry's uses stop being counted.
const maxUses = 255

// Entry is one answer kept. Times are nanoseconds of the owner's clock.
type Entry struct {
	Key      Key
	Answer   *packet.Answer
	Stored   int64
	Ends     int64 // of its life
	Gone     int64 // after Ends: of its use when no server answers
	Negative bool
	Error    bool  // not an answer but a failure that is remembered
	Failures uint8 // in a row, when Error

	// Hold is until when, after Ends, it is served at once: the servers have just failed.
	Hold atomic.Int64
	// Retry is from when on they are asked again meanwhile.
	Retry atomic.Int64
	// Refreshing is set by who asks for it anew.
	Refreshing atomic.Bool

	uses  atomic.Uint32
	hash  uint64
	queue *queue
	prev  *Entry // in queue, guarded by the shard's lock
	next  *Entry
}

// cell is an entry with its name and answer beside it, so that a look-up finds all in a few neighbouring lines of memory.
type cell struct {
	entry  Entry
	answer packet.Answer
	ttls   [8]uint16
	room   [176]byte
}

// NewEntry makes an entry of copies of its key and answer; the caller adds the rest.
func NewEntry(k Key, a *packet.Answer) *Entry {
	c := new(cell)
	c.answer = a.In(c.room[:0], c.ttls[:0])
	k.Name = append(c.answer.Room(c.room[:0]), k.Name...)
	c.entry.Key, c.entry.Answer = k, &c.answer
	return &c.entry
}

// Uses is how often the entry was found, up to 255.
func (e *Entry) Uses() int { return int(e.uses.Load()) }

func (e *Entry) size() int { return len(e.Key.Name) + e.Answer.Size() + entryOverhead }

func (e *Entry) is(k *Key) bool {
	return e.Key.Type == k.Type && e.Key.DO == k.DO && e.Key.CD == k.CD && string(e.Key.Name) == string(k.Name)
}

// Cache keeps entries. It is safe for concurrent use.
type Cache struct {
	seed   maphash.Seed
	shards []shard
	shift  uint // the hash's upper bits choose the shard
}

// Stats are totals since the start, but for the entries and bytes held now.
type Stats struct {
	Entries, Negative, Bytes int
	Evicted                  uint64
}

// New makes a cache of at most that many entries and bytes. Memory is taken as entries come.
func New(entries, bytes int) *Cache {
	n := 1
	for n < 64 && entries/n > 512 {
		n *= 2
	}
	c := &Cache{seed: maphash.MakeSeed(), shards: make([]shard, n), shift: 64 - uint(bits.TrailingZeros(uint(n)))}
	for i := range c.shards {
		c.shards[i].init(entries/n, bytes/n)
	}
	return c
}

func (c *Cache) hash(k *Key) uint64 {
	x := uint64(k.Type) << 2
	if k.DO {
		x |= 1
	}
	if k.CD {
		x |= 2
	}
	hi, lo := bits.Mul64(maphash.Bytes(c.seed, k.Name)^x*0x9e3779b97f4a7c15, 0xff51afd7ed558ccd)
	return hi ^ lo
}

func (c *Cache) shard(hash uint64) *shard { return &c.shards[hash>>c.shift] }

// Get returns what is kept for a question, whatever its age, or nil.
func (c *Cache) Get(k *Key) *Entry {
	h := c.hash(k)
	return c.shard(h).get(h, k)
}

// Use is Get that counts as a use.
func (c *Cache) Use(k *Key) *Entry {
	e := c.Get(k)
	if e == nil {
		return nil
	}
	if n := e.uses.Load(); n < maxUses {
		e.uses.Store(n + 1) // a use lost to a race does not matter
	}
	return e
}

// Put keeps an entry in place of the one with its key. One that would fill too much of the cache is not kept.
func (c *Cache) Put(e *Entry) {
	e.hash = c.hash(&e.Key)
	c.shard(e.hash).put(e)
}

// Delete forgets the answer to a question.
func (c *Cache) Delete(k *Key) {
	h := c.hash(k)
	c.shard(h).delete(h, k)
}

// Stats counts.
func (c *Cache) Stats() Stats {
	var out Stats
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		out.Entries += s.table.live
		out.Negative += s.negative
		out.Bytes += s.bytes
		out.Evicted += s.evicted
		s.mu.Unlock()
	}
	return out
}
