package link

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/miekg/dns"
)

// The sockets of one server. Each is connected, so the kernel drops what others send, and has a port that the kernel chose
// at random; a forged answer must fit port and ID within the time of one question. Ports do not live long.
const (
	maxSockets = 16
	portLife   = 10 * time.Second
	portUses   = 500 // questions sent from one port
)

// maxUDP is the largest datagram taken for an answer.
const maxUDP = 4096

// sockets are the UDP sockets in use for new questions, in no order.
type sockets struct {
	link *Link
	mu   sync.Mutex
	open []*udpSocket
	all  map[*udpSocket]bool // those that only wait for answers too
}

type udpSocket struct {
	conn  net.Conn
	calls calls
	until time.Time // for new questions
	uses  int       // guarded by sockets.mu
}

// exchange asks from one of the sockets, chosen at random.
func (p *sockets) exchange(ctx context.Context, q question) (*dns.Msg, error) {
	s, id, k, err := p.add(ctx, q)
	if err != nil {
		return nil, err
	}
	if _, err := s.conn.Write(q.with(id)); err != nil {
		// An ICMP error about an earlier question is told here; the datagram was not sent.
		if _, err = s.conn.Write(q.with(id)); err != nil {
			p.retire(s, err)
		}
	}
	return s.calls.wait(ctx, id, k)
}

// add gives a question a socket: a new one while there are few, else any. A socket is opened under the lock, which takes
// microseconds, so that a burst does not open one for each of its questions.
func (p *sockets) add(ctx context.Context, q question) (*udpSocket, uint16, *call, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.forgetOld(time.Now())
	busy := 0
	for _, s := range p.open {
		busy += s.calls.count()
	}
	// Few questions need few sockets: one more each time all are in use.
	if n := len(p.open); n > 0 && (n == maxSockets || busy < n) {
		s := p.open[rand.IntN(n)]
		id, k, err := s.calls.add(q)
		if err == nil {
			s.uses++
			p.link.Reused.Add(1)
		}
		if err == nil || errors.Is(err, errBusy) {
			return s, id, k, err
		}
	}
	conn, err := p.link.dial(ctx, "udp")
	if err != nil {
		return nil, 0, nil, err
	}
	s := &udpSocket{conn: conn, until: time.Now().Add(portLife), uses: 1}
	id, k, err := s.calls.add(q)
	p.open = append(p.open, s)
	if p.all == nil {
		p.all = map[*udpSocket]bool{}
	}
	p.all[s] = true
	go p.read(s)
	return s, id, k, err
}

// forgetOld takes sockets that have had their time off the list for new questions.
func (p *sockets) forgetOld(now time.Time) {
	keep := p.open[:0]
	for _, s := range p.open {
		if now.Before(s.until) && s.uses < portUses {
			keep = append(keep, s)
		}
	}
	clear(p.open[len(keep):])
	p.open = keep
}

// read takes answers until the socket has had its time and nobody waits any more.
func (p *sockets) read(s *udpSocket) {
	buf := make([]byte, maxUDP)
	for {
		s.conn.SetReadDeadline(time.Now().Add(portLife))
		n, err := s.conn.Read(buf)
		switch {
		case err == nil:
			s.calls.take(buf[:n])
			continue
		case errors.Is(err, os.ErrDeadlineExceeded):
			if time.Now().Before(s.until) || !s.calls.failIfIdle(errClosed) {
				continue
			}
		}
		p.retire(s, err)
		return
	}
}

// retire closes a socket; who waits for it is told why.
func (p *sockets) retire(s *udpSocket, err error) {
	p.mu.Lock()
	for i, x := range p.open {
		if x == s {
			p.open = append(p.open[:i], p.open[i+1:]...)
			break
		}
	}
	delete(p.all, s)
	p.mu.Unlock()
	s.calls.fail(err)
	s.conn.Close()
}

func (p *sockets) close() {
	p.mu.Lock()
	var all []*udpSocket
	for s := range p.all {
		all = append(all, s)
	}
	p.mu.Unlock()
	for _, s := range all {
		p.retire(s, errClosed)
	}
}
