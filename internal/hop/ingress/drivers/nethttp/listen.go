package nethttp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/podway/podway/internal/hop/ingress/http1"
)

const handshakeTimeout = 10 * time.Second

// plainListener puts a Guard in front of each connection without TLS.
type plainListener struct {
	net.Listener
	refused func(string)
}

func (l plainListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &guarded{Conn: c, guard: http1.Guard{AllowH2: true}, refused: l.refused}, nil
}

// tlsListener hands out connections after their handshake, so that one that turned out to be HTTP/1 can be guarded and
// one that is HTTP/2 goes to net/http as it is.
type tlsListener struct {
	net.Listener
	config *tls.Config
	obs    Observer
	ready  chan net.Conn
	done   chan struct{}
	close  sync.Once
	err    error // of the inner listener; set before done is closed
}

func newTLSListener(l net.Listener, config *tls.Config, obs Observer) *tlsListener {
	t := &tlsListener{Listener: l, config: config, obs: obs, ready: make(chan net.Conn), done: make(chan struct{})}
	go t.run()
	return t
}

func (t *tlsListener) run() {
	for {
		c, err := t.Listener.Accept()
		if err != nil {
			if ne, ok := errors.AsType[net.Error](err); ok && !errors.Is(err, net.ErrClosed) && ne.Timeout() {
				continue
			}
			if isTransient(err) {
				time.Sleep(10 * time.Millisecond) // out of descriptors: the next one may fit
				continue
			}
			t.finish(err)
			return
		}
		go t.handshake(c)
	}
}

func (t *tlsListener) handshake(c net.Conn) {
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	tc := tls.Server(c, t.config)
	if err := tc.HandshakeContext(ctx); err != nil {
		t.obs.Handshake(handshakeReason(err))
		c.Close()
		return
	}
	t.obs.Handshake("")
	var out net.Conn = tc
	if tc.ConnectionState().NegotiatedProtocol != "h2" {
		out = &guardedTLS{guarded: guarded{Conn: tc, refused: t.obs.Refused}, tls: tc}
	}
	select {
	case t.ready <- out:
	case <-t.done:
		c.Close()
	}
}

func (t *tlsListener) Accept() (net.Conn, error) {
	select {
	case c := <-t.ready:
		return c, nil
	case <-t.done:
		return nil, t.err
	}
}

func (t *tlsListener) Close() error {
	err := t.Listener.Close()
	t.finish(net.ErrClosed)
	return err
}

func (t *tlsListener) finish(err error) {
	t.close.Do(func() {
		t.err = err
		close(t.done)
	})
}

// handshakeReason is one of a few words, for a metric's label.
func handshakeReason(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "timeout"
	}
	if _, ok := errors.AsType[tls.RecordHeaderError](err); ok {
		return "not TLS"
	}
	if _, ok := errors.AsType[tls.AlertError](err); ok {
		return "alert"
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return "connection lost"
	}
	return "refused"
}
