package server

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/kernel/socket"
)

// maxQuery is the largest datagram taken for a question.
const maxQuery = 4096

// batch is how many datagrams are read and answered with one system call each.
const batch = 32

// udpLoop is what one UDP socket's goroutine works with.
type udpLoop struct {
	s     *Server
	c     *net.UDPConn
	b     socket.Batch
	tally *tally
	q     answers.Query
	began time.Time  // when the datagrams at hand were read
	fast  [zones]int // how many of them were answered at once, by zone
}

// serveUDP answers the datagrams of one socket until it is closed. The clock is read twice for each batch, not for each
// question: a question's time is its batch's.
func (s *Server) serveUDP(c *net.UDPConn) {
	b, err := socket.NewBatch(c, batch, maxQuery, answers.MaxUDP)
	if err != nil {
		slog.Error("a DNS socket cannot be read", "hop", "dns", "address", c.LocalAddr(), "err", err)
		return
	}
	l := udpLoop{s: s, c: c, b: b, tally: s.o.Metrics.borrow()}
	defer s.o.Metrics.giveBack(l.tally)
	for {
		n, err := b.Receive()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			socket.Pause()
			continue
		}
		l.answer(n)
	}
}

// answer answers the n datagrams at hand.
func (l *udpLoop) answer(n int) {
	l.began, l.fast = time.Now(), [zones]int{}
	for i := range n {
		msg := l.b.Message(i)
		reply, what, ok := l.s.quick(&l.q, l.b.Room(i), msg, false, l.began)
		if !ok {
			from, control := l.b.Peer(i)
			l.s.slowUDP(l.c, bytes.Clone(msg), control, from, l.began)
			continue
		}
		l.b.Answer(i, reply)
		l.fast[what.zone]++
		what.v6, what.question, what.answer = l.b.IsV6(i), len(msg), len(reply)
		l.tally.count(what)
	}
	_ = l.b.Send() // who cannot be reached asks again
	took := time.Since(l.began)
	for zone, n := range l.fast {
		l.tally.took(answers.Zone(zone), n, took)
	}
}

// slowUDP answers apart from the loop; when too many do, the client is told at once.
func (s *Server) slowUDP(c *net.UDPConn, msg, control []byte, from netip.AddrPort, began time.Time) {
	answer := func(reply []byte, what seen) {
		if reply == nil {
			return
		}
		_, _, _ = c.WriteMsgUDPAddrPort(reply, control, from)
		what.v6, what.question, what.took = isV6(from), len(msg), time.Since(began)
		s.o.Metrics.seen(what)
	}
	select {
	case s.slots <- struct{}{}:
		s.wg.Go(func() {
			defer func() { <-s.slots }()
			answer(s.slow(msg, from, false))
		})
	default:
		answer(busy(msg))
	}
}

func isV6(a netip.AddrPort) bool { return !a.Addr().Unmap().Is4() }
