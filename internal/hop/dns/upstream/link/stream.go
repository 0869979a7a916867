package link

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// maxStreams is how many connections to one server are used at a time; each carries many questions (RFC 7766 6.2.1.1).
const maxStreams = 2

// perStream is how many questions one connection carries before another is opened.
const perStream = 64

const writeTime = 2 * time.Second

// streams are the TCP or TLS connections to one server.
type streams struct {
	link *Link
	mu   sync.Mutex
	open []*stream
}

// stream is one connection. The first who needs it opens it; others wait for that.
type stream struct {
	ready chan struct{} // closed when conn or the failure of calls is set
	conn  net.Conn
	calls calls
	write sync.Mutex
	heard atomic.Uint32 // messages
}

// exchange asks over a connection that is open, or a new one. When an open one turns out to be closed by the server, the
// question goes once more, over a new one.
func (p *streams) exchange(ctx context.Context, q question) (*dns.Msg, error) {
	s, reused := p.get()
	m, err := p.over(ctx, s, q)
	if err == nil || !reused || ctx.Err() != nil {
		return m, err
	}
	s = p.fresh()
	return p.over(ctx, s, q)
}

// get returns the connection with the fewest questions, or a new one while all have many.
func (p *streams) get() (*stream, bool) {
	p.mu.Lock()
	var best *stream
	least := 0
	for _, s := range p.open {
		if n := s.calls.count(); best == nil || n < least {
			best, least = s, n
		}
	}
	if best != nil && (least < perStream || len(p.open) >= maxStreams) {
		p.mu.Unlock()
		p.link.Reused.Add(1)
		return best, true
	}
	p.mu.Unlock()
	return p.fresh(), false
}

// fresh starts a connection.
func (p *streams) fresh() *stream {
	s := &stream{ready: make(chan struct{})}
	p.mu.Lock()
	p.open = append(p.open, s)
	p.mu.Unlock()
	go p.run(s)
	return s
}

func (p *streams) over(ctx context.Context, s *stream, q question) (*dns.Msg, error) {
	select {
	case <-s.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	id, k, err := s.calls.add(q)
	if err != nil {
		return nil, err
	}
	if err := s.send(q.with(id)); err != nil {
		p.retire(s, err)
	}
	sent := s.heard.Load()
	m, err := s.calls.wait(ctx, id, k)
	if errors.Is(err, context.DeadlineExceeded) && s.heard.Load() == sent {
		p.retire(s, err) // nothing came at all meanwhile: the other end may be gone
	}
	return m, err
}

// send writes a message with its length in front, in one piece.
func (s *stream) send(msg []byte) error {
	out := append(binary.BigEndian.AppendUint16(make([]byte, 0, 2+len(msg)), uint16(len(msg))), msg...)
	s.write.Lock()
	defer s.write.Unlock()
	s.conn.SetWriteDeadline(time.Now().Add(writeTime))
	_, err := s.conn.Write(out)
	return err
}

// run opens a connection and takes answers until it is idle or broken.
func (p *streams) run(s *stream) {
	conn, err := p.connect()
	if err != nil {
		s.calls.fail(err)
		close(s.ready)
		p.retire(s, err)
		return
	}
	s.conn = conn
	close(s.ready)
	if s.calls.ended() { // closed meanwhile
		conn.Close()
		return
	}
	in := bufio.NewReader(conn)
	for {
		conn.SetReadDeadline(time.Now().Add(p.link.o.Idle))
		msg, err := readMessage(in)
		var late net.Error
		if errors.As(err, &late) && late.Timeout() && in.Buffered() == 0 && !s.calls.failIfIdle(errClosed) {
			err = errors.New("no answer in time") // with questions open for so long the connection is dead
		}
		if err != nil {
			p.retire(s, err)
			return
		}
		s.heard.Add(1)
		s.calls.take(msg)
	}
}

// connect opens a connection, with TLS when it is wanted, within the time of one question.
func (p *streams) connect() (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Second)
	defer cancel()
	conn, err := p.link.dial(ctx, "tcp")
	if err != nil || p.link.o.Proto != TLS {
		return conn, err
	}
	c := tls.Client(conn, p.link.o.TLS)
	if err := c.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func readMessage(in io.Reader) ([]byte, error) {
	var size [2]byte
	if _, err := io.ReadFull(in, size[:]); err != nil {
		return nil, err
	}
	msg := make([]byte, binary.BigEndian.Uint16(size[:]))
	_, err := io.ReadFull(in, msg)
	return msg, err
}

// retire closes a connection; who waits for it is told why.
func (p *streams) retire(s *stream, err error) {
	p.mu.Lock()
	for i, x := range p.open {
		if x == s {
			p.open = append(p.open[:i], p.open[i+1:]...)
			break
		}
	}
	p.mu.Unlock()
	s.calls.fail(err)
	select {
	case <-s.ready:
		if s.conn != nil {
			s.conn.Close()
		}
	default: // run closes it
	}
}

func (p *streams) close() {
	p.mu.Lock()
	all := append([]*stream(nil), p.open...)
	p.mu.Unlock()
	for _, s := range all {
		p.retire(s, errClosed)
	}
}
