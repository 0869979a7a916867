package control

import (
	"sync"

	"github.com/podway/podway/internal/model"
)

// hub hands the newest snapshot to each subscriber through a slot of one: who is slow sees fewer.
type hub struct {
	mu   sync.Mutex
	last *model.Snapshot
	subs map[chan *model.Snapshot]struct{}
}

func (h *hub) put(s *model.Snapshot) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last = s
	for c := range h.subs {
		replace(c, s)
	}
}

// subscribe returns the slot, with the newest snapshot in it if there is one, and what ends the subscription.
func (h *hub) subscribe() (<-chan *model.Snapshot, func()) {
	c := make(chan *model.Snapshot, 1)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.subs == nil {
		h.subs = map[chan *model.Snapshot]struct{}{}
	}
	h.subs[c] = struct{}{}
	if h.last != nil {
		c <- h.last
	}
	return c, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.subs, c)
	}
}

// replace puts s into the slot; nobody else fills it.
func replace(c chan *model.Snapshot, s *model.Snapshot) {
	select {
	case <-c:
	default:
	}
	c <- s
}
