package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
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
		select {
		case s.conns <- struct{}{}:
			s.wg.Go(func() {
				defer func() { <-s.conns }()
				s.serveConn(c)
			})
		default:
			c.Close()
		}
	}
}

// tcpConn is one connection; answers are written as they become ready.
type tcpConn struct {
	net.Conn
	mu   sync.Mutex // of writing
	slow sync.WaitGroup
}

// serveConn answers the questions of one connection until it is idle, broken or the server closes.
func (s *Server) serveConn(conn net.Conn) {
	c := &tcpConn{Conn: conn}
	stop := context.AfterFunc(s.quit, func() { conn.SetReadDeadline(time.Unix(1, 0)) })
	defer conn.Close()
	defer c.slow.Wait()
	defer stop()
	var q answers.Query
	var out []byte
	from := netip.MustParseAddrPort(conn.RemoteAddr().String())
	v6 := isV6(from)
	room := make(chan struct{}, pipeline)
	for in := bufio.NewReader(conn); ; {
		msg, err := s.readMessage(c, in)
		if err != nil {
			return
		}
		began := time.Now()
		if reply, what, ok := s.quick(&q, out, msg, true, began); ok {
			out = reply[:0]
			if c.write(reply) != nil {
				return
			}
			what.v6, what.took = v6, time.Since(began)
			s.o.Metrics.seen(what)
			continue
		}
		room <- struct{}{}
		c.slow.Go(func() {
			defer func() { <-room }()
			s.slowTCP(c, msg, from, began)
		})
	}
}

// slowTCP waits for a slot, unlike by UDP: the connection itself holds the client back.
func (s *Server) slowTCP(c *tcpConn, msg []byte, from netip.AddrPort, began time.Time) {
	s.slots <- struct{}{}
	reply, what := s.slow(msg, from, true)
	<-s.slots
	if reply == nil || c.write(reply) != nil {
		c.Close()
		return
	}
	what.tcp, what.v6, what.took = true, isV6(from), time.Since(began)
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
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(in, msg)
	return msg, err
}

// write sends a message with its length in front, in one piece.
func (c *tcpConn) write(msg []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.SetWriteDeadline(time.Now().Add(writeTime))
	bufs := net.Buffers{binary.BigEndian.AppendUint16(nil, uint16(len(msg))), msg}
	_, err := bufs.WriteTo(c.Conn)
	return err
}
