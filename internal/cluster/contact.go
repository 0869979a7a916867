package cluster

import (
	"net/http"
	"sync"
	"time"
)

// Contact notices whether the API server answers requests. Watches do not tell: client-go asks again without a word as
// long as connections are refused. The zero Contact is ready; it is safe for concurrent use.
type Contact struct {
	mu    sync.Mutex
	since time.Time // of the first request without an answer after the last answer; zero = there is contact
}

// Wrap is for rest.Config.Wrap.
func (c *Contact) Wrap(next http.RoundTripper) http.RoundTripper { return contactTrip{c, next} }

// Lost says for how long no request has been answered, and whether that is so. A nil Contact knows of nothing.
func (c *Contact) Lost() (since time.Duration, lost bool) {
	if c == nil {
		return 0, false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return 0, false
	}
	return time.Since(c.since), true
}

func (c *Contact) note(answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case answered:
		c.since = time.Time{}
	case c.since.IsZero():
		c.since = time.Now()
	}
}

type contactTrip struct {
	contact *Contact
	next    http.RoundTripper
}

// RoundTrip implements http.RoundTripper. What a load balancer says in the place of a dead API server is no answer.
func (t contactTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	res, err := t.next.RoundTrip(r)
	switch {
	case err != nil && r.Context().Err() != nil: // the asker gave up
	case err != nil:
		t.contact.note(false)
	default:
		c := res.StatusCode
		t.contact.note(c != http.StatusBadGateway && c != http.StatusServiceUnavailable && c != http.StatusGatewayTimeout)
	}
	return res, err
}
