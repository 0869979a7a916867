package routes

// slots is a persistent array of backends: a lookup is two loads where a hash map of BackendKeys costs several cache
// misses, and a change copies one chunk and the list of chunks. The zero slots is empty.
type slots struct {
	chunks []*chunk
	free   *freeSlot
	size   int32
}

const chunkSize = 64

type chunk [chunkSize]*Backend

type freeSlot struct {
	slot int32
	next *freeSlot
}

// at returns the backend in a slot that was taken and set.
func (s *slots) at(i int32) *Backend { return s.chunks[i/chunkSize][i%chunkSize] }

// take returns a slot that nobody has.
func (s *slots) take() int32 {
	if f := s.free; f != nil {
		s.free = f.next
		return f.slot
	}
	s.size++
	return s.size - 1
}

// put gives a slot back.
func (s *slots) put(i int32) {
	s.set(i, nil)
	s.free = &freeSlot{slot: i, next: s.free}
}

// set leaves all other holders of the old array as they are.
func (s *slots) set(i int32, b *Backend) {
	at := int(i / chunkSize)
	chunks := make([]*chunk, max(len(s.chunks), at+1))
	copy(chunks, s.chunks)
	next := &chunk{}
	if chunks[at] != nil {
		*next = *chunks[at]
	}
	next[i%chunkSize] = b
	chunks[at] = next
	s.chunks = chunks
}
