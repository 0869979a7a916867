package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/hop/dns/answers"
)

// The times of a TCP connection (RFC 7766).
const (
	idle      = 10 * time.Second
	writeTime = 5 * time.Second
)

// pipeline is how many questions of one connection may be on the slow path.
const pipeline = 32

// serveTCP takes connections until the socket is closed.
func (s *Server) serveTCP(l *net.TCPListener) {
	for {
		c, err := l.AcceptTCP()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of descriptors, or the client has gone
			time.Sleep(10 * time.Millisecond)
			continue
		}
		t := &tcpConn{Conn: c}
		t.touch()
		if !s.conns.enter(t) {
			c.Close()
			continue
		}
		s.wg.Go(func() {
			defer s.conns.leave(t)
			s.serveConn(t)
		})
	}
}

// tcpConn is one connection; answers are written as they become ready.
type tcpConn struct {
	net.Conn
	heard   atomic.Int64 // when the last question came, or the connection; Unix nanoseconds
	pending atomic.Int32 // questions on the slow path
	slow    sync.WaitGroup

	mu  sync.Mutex // of writing
	out []byte
}

// serveConn answers the questions of one connection until it is idle, broken or the server closes.
func (s *Server) serveConn(c *tcpConn) {
	stop := context.AfterFunc(s.quit, func() { c.SetReadDeadline(time.Unix(1, 0)) })
	defer c.Close()
	defer c.slow.Wait()
	defer stop()
	var q answers.Query
	var out []byte
	from := netip.MustParseAddrPort(c.RemoteAddr().String())
	v6 := isV6(from)
	room := make(chan struct{}, pipeline)
	for in := bufio.NewReader(c); ; {
		msg, err := s.readMessage(c, in)
		if err != nil {
			return
		}
		c.touch()
		began := time.Now()
		if reply, what, ok := s.quick(&q, out, msg, true, began); ok {
			out = kept(reply)
			if c.write(reply) != nil {
				return
			}
			what.v6, what.question, what.answer, what.took = v6, len(msg), len(reply), time.Since(began)
			s.o.Metrics.seen(what)
			continue
		}
		room <- struct{}{}
		c.pending.Add(1)
		c.slow.Go(func() {
			defer func() { c.pending.Add(-1); <-room }()
			s.slowTCP(c, msg, from, began)
		})
	}
}

// slowTCP waits for a slot, unlike by UDP: the connection itself holds the client back.
func (s *Server) slowTCP(c *tcpConn, msg []byte, from netip.AddrPort, began time.Time) {
	if s.transfer(c, msg, from, began) {
		return
	}
	s.slots <- struct{}{}
	reply, what := s.slow(msg, from, true)
	<-s.slots
	if reply == nil || c.write(reply) != nil {
		c.Close()
		return
	}
	what.tcp, what.v6, what.question, what.took = true, isV6(from), len(msg), time.Since(began)
	s.o.Metrics.seen(what)
}

// readMessage reads the next question; a connection on which none comes is closed.
func (s *Server) readMessage(c *tcpConn, in *bufio.Reader) ([]byte, error) {
	c.SetReadDeadline(time.Now().Add(idle))
	if err := s.quit.Err(); err != nil { // else the deadline just set would hide that the server closes
		return nil, err
	}
	var size [2]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	n := int(binary.BigEndian.Uint16(size[:]))
	if n > maxQuery { // no question is that long; room for it is not the client's to ask for
		return nil, fmt.Errorf("dns: a question of %d bytes", n)
	}
	msg := make([]byte, n)
	_, err := io.ReadFull(in, msg)
	return msg, err
}

// write sends a message with its length in front, in one piece.
func (c *tcpConn) write(msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.SetWriteDeadline(time.Now().Add(writeTime))
	c.out = append(binary.BigEndian.AppendUint16(c.out[:0], uint16(len(msg))), msg...)
	_, err := c.Conn.Write(c.out)
	c.out = kept(c.out)
	return err
}

// kept is a buffer for the next answer; a large one is not held for as long as a client stays.
func kept(buf []byte) []byte {
	if cap(buf) > maxQuery {
		return nil
	}
	return buf[:0]
}
