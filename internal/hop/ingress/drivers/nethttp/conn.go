package nethttp

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"

	"github.com/podway/podway/internal/hop/ingress/http1"
)

// guarded is a client's connection whose bytes go through an http1.Guard before net/http sees them. A broken rule ends
// in an error of Read, which net/http answers with 400 and a closed connection.
type guarded struct {
	net.Conn
	guard   http1.Guard
	refused func(reason string)
	broken  atomic.Pointer[http1.Error]
}

// Read passes what came before the broken rule on without an error, and then the error for ever: readers of lines may
// ask again after one.
func (c *guarded) Read(p []byte) (int, error) {
	if e := c.broken.Load(); e != nil {
		return 0, e
	}
	n, err := c.Conn.Read(p)
	passed, broken := c.guard.Check(p[:n])
	if broken == nil {
		return n, err
	}
	c.broken.Store(broken)
	c.refused(broken.Reason)
	if passed > 0 {
		return passed, nil
	}
	return 0, broken
}

// CloseWrite lets net/http send an answer to a client that is still sending.
func (c *guarded) CloseWrite() error {
	if w, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return w.CloseWrite()
	}
	return nil
}

// guardedTLS tells net/http that the connection is encrypted.
type guardedTLS struct {
	guarded
	tls *tls.Conn
}

func (c *guardedTLS) ConnectionState() tls.ConnectionState { return c.tls.ConnectionState() }

// opaque ends the checks of a connection that was upgraded.
func opaque(c net.Conn) {
	switch g := c.(type) {
	case *guarded:
		g.guard.Opaque()
	case *guardedTLS:
		g.guard.Opaque()
	}
}

// connKey is the context key of a request's *guarded.
type connKey struct{}

// withConn lets a request find the Guard of its connection.
func withConn(ctx context.Context, c net.Conn) context.Context {
	switch g := c.(type) {
	case *guarded:
		return context.WithValue(ctx, connKey{}, g)
	case *guardedTLS:
		return context.WithValue(ctx, connKey{}, &g.guarded)
	}
	return ctx
}

// brokenRule is the rule of HTTP/1 that the request's client broke after its head; nil = none.
func brokenRule(ctx context.Context) *http1.Error {
	if g, ok := ctx.Value(connKey{}).(*guarded); ok {
		return g.broken.Load()
	}
	return nil
}
