package echo

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
)

// tcpServer says who it is in a line, then sends back what comes.
type tcpServer struct {
	l  net.Listener
	mu sync.Mutex
	on map[net.Conn]bool
	wg sync.WaitGroup
}

func (s *Server) openTCP() error {
	if s.c.TCP == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.c.TCP)
	if err != nil {
		return fmt.Errorf("echo: tcp: %w", err)
	}
	s.addrs["tcp"] = l.Addr()
	s.tcp.l, s.tcp.on = l, map[net.Conn]bool{}
	s.wg.Go(func() { s.ended("tcp", s.tcp.serve(s.c.Who)) })
	return nil
}

func (t *tcpServer) serve(who Identity) error {
	for {
		c, err := t.l.Accept()
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.on[c] = true
		t.mu.Unlock()
		t.wg.Go(func() {
			defer t.forget(c)
			if _, err := fmt.Fprintln(c, who.Line(c.RemoteAddr().String())); err == nil {
				_, _ = io.Copy(c, c)
			}
		})
	}
}

func (t *tcpServer) forget(c net.Conn) {
	c.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.on, c)
}

// shutdown takes no more connections and waits for those that are open.
func (t *tcpServer) shutdown(ctx context.Context) error {
	if t.l == nil {
		return nil
	}
	t.l.Close()
	done := make(chan struct{})
	go func() { t.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("echo: tcp: connections are still open: %w", ctx.Err())
	}
}

func (t *tcpServer) close() {
	if t.l == nil {
		return
	}
	t.l.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for c := range t.on {
		c.Close()
	}
}
