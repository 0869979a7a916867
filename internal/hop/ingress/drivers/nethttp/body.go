package nethttp

import (
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// requestBody is the client's body on its way to an endpoint. Closing it does nothing, so that an attempt that failed
// before reading leaves it for the next one; net/http closes the real one after the exchange. A nil *requestBody is the
// body of a request without one.
type requestBody struct {
	from    io.Reader
	trailer http.Header // of the request; net/http fills it at the end of the body

	read atomic.Bool
	mu   sync.Mutex
	err  error
	eof  bool
}

func (b *requestBody) Read(p []byte) (int, error) {
	b.read.Store(true)
	n, err := b.from.Read(p)
	if err == nil {
		return n, nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == io.EOF {
		b.eof = true
		for k := range hopByHop {
			delete(b.trailer, k)
		}
	} else {
		b.err = err
	}
	return n, err
}

func (b *requestBody) Close() error { return nil }

// begun reports whether any of the body was taken.
func (b *requestBody) begun() bool { return b != nil && b.read.Load() }

// broken is the error that the client's side of the body ended in.
func (b *requestBody) broken() error {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

// unfinished reports whether the client may still be sending.
func (b *requestBody) unfinished() bool {
	if b == nil {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.eof && b.err == nil
}
