package cache

import "sync/atomic"

// table is a hash table with open addressing that readers search without a lock. One writer at a time changes it. Slots
// are at most half full, so a search looks at one or two.
type table struct {
	slots atomic.Pointer[[]slot] // a power of two
	live  int
	dead  int
}

// slot holds the hash beside the entry, so that a search follows no pointer in vain. A reader may see the one new and
// the other old: then it takes the entry for a miss, or compares its key.
type slot struct {
	hash  atomic.Uint64
	entry atomic.Pointer[Entry]
}

// tombstone stands where an entry was: a search goes on behind it.
var tombstone = new(Entry)

func (t *table) reset(size int) {
	slots := make([]slot, size)
	t.slots.Store(&slots)
	t.live, t.dead = 0, 0
}

func (t *table) find(hash uint64, k *Key) *Entry {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		e := slots[i].entry.Load()
		if e == nil {
			return nil
		}
		if slots[i].hash.Load() == hash && e != tombstone && e.is(k) {
			return e
		}
	}
}

// put stores an entry in place of the one with its key.
func (t *table) put(e *Entry) {
	slots := *t.slots.Load()
	if (t.live+t.dead+1)*2 > len(slots) {
		slots = t.rebuild()
	}
	mask := uint64(len(slots) - 1)
	var free *slot
	for i := e.hash & mask; ; i = (i + 1) & mask {
		s := &slots[i]
		switch have := s.entry.Load(); {
		case have == nil:
			if free == nil {
				free = s
			} else {
				t.dead--
			}
			t.live++
			free.hash.Store(e.hash)
			free.entry.Store(e)
			return
		case have == tombstone:
			if free == nil {
				free = s
			}
		case s.hash.Load() == e.hash && have.is(&e.Key):
			s.entry.Store(e)
			return
		}
	}
}

func (t *table) delete(e *Entry) {
	slots := *t.slots.Load()
	mask := uint64(len(slots) - 1)
	for i := e.hash & mask; ; i = (i + 1) & mask {
		switch slots[i].entry.Load() {
		case nil:
			return
		case e:
			slots[i].entry.Store(tombstone)
			t.live--
			t.dead++
			return
		}
	}
}

// rebuild copies the living into a table at most a quarter full.
func (t *table) rebuild() []slot {
	was := *t.slots.Load()
	size := 8
	for size < 4*(t.live+1) {
		size *= 2
	}
	slots := make([]slot, size)
	mask := uint64(size - 1)
	for i := range was {
		e := was[i].entry.Load()
		if e == nil || e == tombstone {
			continue
		}
		at := e.hash & mask
		for slots[at].entry.Load() != nil {
			at = (at + 1) & mask
		}
		slots[at].hash.Store(e.hash)
		slots[at].entry.Store(e)
	}
	t.dead = 0
	t.slots.Store(&slots)
	return slots
}
