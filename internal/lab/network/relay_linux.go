package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"time"
)

// Dial opens a TCP connection from inside the namespace.
func (n *Namespace) Dial(ctx context.Context, address string) (net.Conn, error) {
	var conn net.Conn
	err := n.Do(func() (err error) {
		// An IP address: no lookup, one attempt, so that the socket is made on this thread.
		conn, err = (&net.Dialer{}).DialContext(ctx, "tcp", address)
		return err
	})
	return conn, err
}

// Listen takes the port on the host's 127.0.0.1, or the next free one of the hundred above.
func Listen(port int) (net.Listener, int, error) {
	var last error
	for p := port; p < port+100; p++ {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", p))
		if err == nil {
			return l, p, nil
		}
		last = err
	}
	return nil, 0, fmt.Errorf("network: no free port from %d on: %w", port, last)
}

// Relay carries the listener's connections to an address inside the namespace, until the listener closes.
func (n *Namespace) Relay(l net.Listener, address string) {
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			slog.Warn("relay cannot accept", "error", err)
			time.Sleep(50 * time.Millisecond) // out of descriptors: they come back as connections end
			continue
		}
		go n.carry(conn, address)
	}
}

func (n *Namespace) carry(conn net.Conn, address string) {
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	inner, err := n.Dial(ctx, address)
	if err != nil {
		return // the caller sees a closed connection, as it would of a server that is not up
	}
	defer inner.Close()
	done := make(chan struct{})
	go func() {
		defer close(done)
		copyHalf(inner, conn)
	}()
	copyHalf(conn, inner)
	<-done
}

// copyHalf carries one direction and passes its end on, so that half-closed connections keep working.
func copyHalf(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if c, ok := to.(interface{ CloseWrite() error }); ok && err == nil {
		_ = c.CloseWrite()
		return
	}
	to.Close()
	from.Close()
}
