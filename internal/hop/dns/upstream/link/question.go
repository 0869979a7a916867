package link

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/miekg/dns"
)

const headerSize = 12

// question is a question as it is sent, but for its ID.
type question struct {
	wire []byte
	end  int // of the question section
}

func newQuestion(q *dns.Msg) (question, error) {
	if len(q.Question) != 1 {
		return question{}, fmt.Errorf("upstream: %d questions in one message", len(q.Question))
	}
	wire, err := q.Pack()
	if err != nil {
		return question{}, fmt.Errorf("upstream: pack: %w", err)
	}
	end := headerSize
	for wire[end] != 0 {
		end += 1 + int(wire[end])
	}
	return question{wire, end + 5}, nil
}

// with is the message with an ID.
func (q question) with(id uint16) []byte {
	out := bytes.Clone(q.wire)
	binary.BigEndian.PutUint16(out, id)
	return out
}

// answeredBy reports whether a message answers q, the ID aside: anybody can send a datagram. A server that cannot read a
// question may fail without it.
func (q question) answeredBy(msg []byte) bool {
	if len(msg) < headerSize || msg[2]&0x80 == 0 || msg[2]&0x78 != q.wire[2]&0x78 {
		return false
	}
	if len(msg) == headerSize {
		return binary.BigEndian.Uint64(msg[4:]) == 0 && msg[3]&0xf != dns.RcodeSuccess && msg[3]&0xf != dns.RcodeNameError
	}
	if binary.BigEndian.Uint16(msg[4:]) != 1 || len(msg) < q.end {
		return false
	}
	name := q.end - 4
	return equalFold(msg[headerSize:name], q.wire[headerSize:name]) && bytes.Equal(msg[name:q.end], q.wire[name:q.end])
}

// equalFold compares names in wire format, whatever the case of ASCII letters.
func equalFold(a, b []byte) bool {
	for i := range a {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// call is a question in flight.
type call struct {
	question
	done chan struct{} // closed when msg or err is set
	msg  *dns.Msg
	err  error
}

// calls are the questions in flight over one connection, by ID.
type calls struct {
	mu     sync.Mutex
	open   map[uint16]*call
	failed error // set when no more may be added
}

// maxCalls keeps IDs sparse, so that a free one is found at once and a guessed one seldom fits.
const maxCalls = 1024

// add gives a call a random ID that is free.
func (c *calls) add(q question) (uint16, *call, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed != nil {
		return 0, nil, c.failed
	}
	if len(c.open) >= maxCalls {
		return 0, nil, errBusy
	}
	if c.open == nil {
		c.open = map[uint16]*call{}
	}
	id := uint16(rand.Uint32())
	for c.open[id] != nil {
		id = uint16(rand.Uint32())
	}
	k := &call{question: q, done: make(chan struct{})}
	c.open[id] = k
	return id, k, nil
}

// take ends the call that a message answers. bad is a message with the right ID and question that cannot be read.
func (c *calls) take(msg []byte) {
	if len(msg) < headerSize {
		return
	}
	id := binary.BigEndian.Uint16(msg)
	c.mu.Lock()
	k := c.open[id]
	c.mu.Unlock()
	if k == nil || !k.answeredBy(msg) {
		return
	}
	m := new(dns.Msg)
	if m.Unpack(msg) != nil {
		return // nonsense; the true one may follow
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] == k {
		delete(c.open, id)
		k.msg = m
		close(k.done)
	}
}

// wait waits for the answer; a call that is given up is forgotten.
func (c *calls) wait(ctx context.Context, id uint16, k *call) (*dns.Msg, error) {
	select {
	case <-k.done:
		return k.msg, k.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[id] == k {
		delete(c.open, id)
	}
	if k.msg != nil {
		return k.msg, nil
	}
	return nil, ctx.Err()
}

// fail ends all calls, and takes no more.
func (c *calls) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failed == nil {
		c.failed = err
	}
	for id, k := range c.open {
		delete(c.open, id)
		k.err = c.failed
		close(k.done)
	}
}

func (c *calls) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

// ended reports whether no more calls are taken.
func (c *calls) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed != nil
}

// failIfIdle takes no more calls unless some are open; it reports whether it did.
func (c *calls) failIfIdle(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) > 0 {
		return false
	}
	c.failed = err
	return true
}
