package server

import (
	"sync"
	"time"
)

// crowd is the TCP connections that are open: at most limit. A client that opens them and says nothing keeps nobody out:
// for a new one, the one that has been silent longest and waits for no answer is closed (RFC 7766, 6.2.3).
type crowd struct {
	mu    sync.Mutex
	limit int
	open  map[*tcpConn]bool
}

// enter takes a connection in; false when all others wait for answers.
func (c *crowd) enter(t *tcpConn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.open) >= c.limit {
		v := c.silent()
		if v == nil {
			return false
		}
		v.Close() // its goroutine leaves by itself
		delete(c.open, v)
	}
	c.open[t] = true
	return true
}

// silent is the connection whose last question is longest ago, among those that wait for no answer.
func (c *crowd) silent() (v *tcpConn) {
	for t := range c.open {
		if t.pending.Load() == 0 && (v == nil || t.heard.Load() < v.heard.Load()) {
			v = t
		}
	}
	return v
}

func (c *crowd) leave(t *tcpConn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, t)
}

// touch notes that a question came.
func (t *tcpConn) touch() { t.heard.Store(time.Now().UnixNano()) }
