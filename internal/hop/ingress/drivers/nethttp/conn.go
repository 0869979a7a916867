package nethttp

import (
	"crypto/tls"
	"errors"
	"net"

	"github.com/podway/podway/internal/hop/ingress/http1"
)

// guarded is a client's connection whose bytes go through an http1.Guard before net/http sees them. A broken rule ends
// in an error of Read, which net/http answers with 400 and a closed connection.
type guarded struct {
	net.Conn
	guard   http1.Guard
	refused func(reason string)
}

func (c *guarded) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	passed, broken := c.guard.Check(p[:n])
	if broken != nil {
		if c.refused != nil {
			var e *http1.Error
			if errors.As(broken, &e) {
				c.refused(e.Reason)
			}
			c.refused = nil
		}
		return passed, broken
	}
	return n, err
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
