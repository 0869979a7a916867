// Package conntrack is the door to the kernel's table of tracked connections: it finds entries of one protocol and deletes
// the ones that are asked for. It never flushes, and it knows nothing of Services.
package conntrack

import (
	"context"
	"net/netip"
	"slices"
	"sync"
)

// UDP is the protocol number of UDP.
const UDP uint8 = 17

// Entry is one tracked connection, in the direction of the client's packets and in that of the answers: after a
// translation the latter tells the real server and the address that it sees.
type Entry struct {
	Proto         uint8
	Src, Dst      netip.AddrPort // as the client sends
	AnswerSrc     netip.AddrPort // the real server
	AnswerDst     netip.AddrPort // whom the server answers to
	Zone          uint16
	ID            uint32
	SeenAnswer    bool
	DstTranslated bool
}

// Table is the door: Open opens the kernel's, Fake stands in for it.
type Table interface {
	// Delete deletes the entries of a protocol for which stale returns true, and returns how many there were. One that
	// ended in the meantime counts as deleted.
	Delete(ctx context.Context, proto uint8, stale func(Entry) bool) (int, error)
	// List returns all entries of a protocol.
	List(ctx context.Context, proto uint8) ([]Entry, error)
	Close() error
}

// Room is how full the table is.
type Room struct {
	Entries int // of this network namespace
	Max     int // of the whole host; 0 = no limit or not known
	// Dropped and Evicted count since the namespace began: packets for which there was no room, and connections without
	// answer that had to make room.
	Dropped, Evicted uint64
}

// Counter is a table that knows how full it is.
type Counter interface {
	Room(ctx context.Context) (Room, error)
}

// Fake is a table in memory.
type Fake struct {
	mu      sync.Mutex
	entries []Entry
	room    Room
}

// SetRoom sets what Room returns.
func (f *Fake) SetRoom(r Room) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room = r
}

// Room implements Counter.
func (f *Fake) Room(context.Context) (Room, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.room, nil
}

// NewFake returns a table with the entries.
func NewFake(es ...Entry) *Fake { return &Fake{entries: es} }

// Add puts an entry in.
func (f *Fake) Add(es ...Entry) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.entries = append(f.entries, es...)
}

// List implements Table.
func (f *Fake) List(_ context.Context, proto uint8) ([]Entry, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.entries), func(e Entry) bool { return e.Proto != proto }), nil
}

// Delete implements Table.
func (f *Fake) Delete(_ context.Context, proto uint8, stale func(Entry) bool) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	before := len(f.entries)
	f.entries = slices.DeleteFunc(f.entries, func(e Entry) bool { return e.Proto == proto && stale(e) })
	return before - len(f.entries), nil
}

// Close does nothing.
func (f *Fake) Close() error { return nil }
