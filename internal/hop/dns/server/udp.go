package server

import (
	"bytes"
	"errors"
	"net"
	"net/netip"
	"time"

	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/kernel/socket"
)

// maxQuery is the largest datagram taken for a question.
const maxQuery = 4096

// serveUDP answers the datagrams of one socket until it is closed.
func (s *Server) serveUDP(c *net.UDPConn) {
	var q answers.Query
	buf, out, oob := make([]byte, maxQuery), make([]byte, 0, maxQuery), make([]byte, socket.OOBSize)
	for {
		n, m, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // an error of one datagram, or of the machine: never spin on it
			time.Sleep(time.Millisecond)
			continue
		}
		began := time.Now()
		reply, what, ok := s.quick(&q, out, buf[:n], false, began)
		control := socket.Reply(oob[:m])
		if ok {
			_, _, _ = c.WriteMsgUDPAddrPort(reply, control, from)
			what.v6, what.took = isV6(from), time.Since(began)
			s.o.Metrics.seen(what)
			continue
		}
		s.slowUDP(c, bytes.Clone(buf[:n]), bytes.Clone(control), from, began)
	}
}

// slowUDP answers apart from the loop; when too many do, the client is told at once.
func (s *Server) slowUDP(c *net.UDPConn, msg, control []byte, from netip.AddrPort, began time.Time) {
	answer := func(reply []byte, what seen) {
		if reply == nil {
			return
		}
		_, _, _ = c.WriteMsgUDPAddrPort(reply, control, from)
		what.v6, what.took = isV6(from), time.Since(began)
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
