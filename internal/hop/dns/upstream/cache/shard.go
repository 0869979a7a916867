package cache

import "sync"

// shard is a part of the cache with a lock of its own; the lock is for writers, readers look into the table.
type shard struct {
	mu         sync.Mutex
	table      table
	maxEntries int
	maxBytes   int
	bytes      int
	negative   int
	evicted    uint64
	young, old queue
	ghosts     []uint32 // parts of hashes of young entries that went unused: one that comes again is old at once
	_          [64]byte // the next shard's lock is on a line of its own
}

func (s *shard) init(entries, bytes int) {
	s.maxEntries, s.maxBytes = max(1, entries), bytes
	s.table.reset(8)
}

func (s *shard) get(hash uint64, k *Key) *Entry { return s.table.find(hash, k) }

func (s *shard) put(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	size := e.size()
	old := s.table.find(e.hash, &e.Key)
	if size > s.maxBytes/2 {
		if old != nil {
			s.drop(old)
		}
		return
	}
	if old != nil {
		s.count(old, -1)
		old.queue.replace(old, e)
		e.uses.Store(min(old.uses.Load(), 1)) // still in use
		s.count(e, 1)
		s.table.put(e)
		for s.bytes > s.maxBytes && s.evict(e) {
		}
		return
	}
	for (s.table.live >= s.maxEntries || s.bytes+size > s.maxBytes) && s.evict(nil) {
	}
	if s.remembered(e.hash) {
		s.old.push(e)
	} else {
		s.young.push(e)
	}
	s.count(e, 1)
	s.table.put(e)
}

// count brings the sums in line with an entry that comes (1) or goes (-1).
func (s *shard) count(e *Entry, sign int) {
	s.bytes += sign * e.size()
	if e.Negative || e.Error {
		s.negative += sign
	}
}

func (s *shard) delete(hash uint64, k *Key) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.table.find(hash, k); e != nil {
		s.drop(e)
	}
}

func (s *shard) drop(e *Entry) {
	e.queue.remove(e)
	s.count(e, -1)
	s.table.delete(e)
}

// evict makes room by one entry other than keep; false = there is none. Young entries go while they are more than a tenth,
// unless they were used; those join the old ones, among which each use since the last round saves one once (S3-FIFO, Yang
// and others, SOSP 2023).
func (s *shard) evict(keep *Entry) bool {
	for tries := 4 * (s.young.n + s.old.n); tries > 0; tries-- {
		young := s.old.n == 0 || s.young.n > s.maxEntries/10
		q := &s.old
		if young && s.young.n > 0 {
			q = &s.young
		}
		e := q.head
		if e == nil {
			return false
		}
		q.remove(e)
		used := e.uses.Load()
		switch {
		case e == keep:
			q.push(e)
			if s.young.n+s.old.n == 1 {
				return false
			}
		case q == &s.young && used > 0:
			s.old.push(e)
			e.uses.Store(0)
		case q == &s.old && used > 0:
			e.uses.Store(min(used, 3) - 1)
			s.old.push(e)
		default:
			if q == &s.young {
				s.remember(e.hash)
			}
			s.count(e, -1)
			s.table.delete(e)
			s.evicted++
			return true
		}
	}
	return false
}

// remember notes a young entry that goes; a later one may take its place.
func (s *shard) remember(hash uint64) {
	if s.ghosts == nil {
		n := 1
		for n < s.maxEntries {
			n *= 2
		}
		s.ghosts = make([]uint32, n)
	}
	s.ghosts[hash&uint64(len(s.ghosts)-1)] = uint32(hash>>16) | 1
}

func (s *shard) remembered(hash uint64) bool {
	return s.ghosts != nil && s.ghosts[hash&uint64(len(s.ghosts)-1)] == uint32(hash>>16)|1
}

// queue is entries in the order in which they came.
type queue struct {
	head, tail *Entry
	n          int
}

func (q *queue) push(e *Entry) {
	e.queue, e.prev, e.next = q, q.tail, nil
	if q.tail == nil {
		q.head = e
	} else {
		q.tail.next = e
	}
	q.tail = e
	q.n++
}

func (q *queue) remove(e *Entry) {
	if e.prev == nil {
		q.head = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		q.tail = e.prev
	} else {
		e.next.prev = e.prev
	}
	e.prev, e.next = nil, nil
	q.n--
}

// replace puts e in the place of old.
func (q *queue) replace(old, e *Entry) {
	e.queue, e.prev, e.next = q, old.prev, old.next
	if e.prev == nil {
		q.head = e
	} else {
		e.prev.next = e
	}
	if e.next == nil {
		q.tail = e
	} else {
		e.next.prev = e
	}
	old.prev, old.next = nil, nil
}
