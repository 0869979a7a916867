// Package link brings questions to one DNS server and its answers back: by UDP, TCP and TLS, many at a time over few
// sockets. It checks that an answer belongs to its question; which server is asked, and what the answer is worth, it does
// not know.
package link

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"
)

// Proto is how a server is spoken to.
type Proto uint8

// The protocols.
const (
	UDP Proto = iota // TCP when an answer does not fit
	TCP
	TLS // RFC 7858
)

func (p Proto) String() string { return [...]string{"udp", "tcp", "tcp-tls"}[p] }

// Idle is how long a connection without a question in flight stays open.
const Idle = 10 * time.Second

// Options say how a server is reached.
type Options struct {
	Addr  netip.AddrPort
	Proto Proto
	Idle  time.Duration // 0 = Idle
	TLS   *tls.Config   // of TLS: server name, roots, session cache; nil = the machine's roots and the address as name

	// In runs a function in the network namespace in which sockets are opened; nil = this one.
	In func(func() error) error
}

// Link is the way to one server. It opens nothing before the first question and is safe for concurrent use.
type Link struct {
	o       Options
	udp     sockets
	stream  streams
	Opened  atomic.Uint64 // connections and sockets made
	Reused  atomic.Uint64 // questions sent over one that was open
	Retried atomic.Uint64 // answers that did not fit a datagram
}

// New makes a Link.
func New(o Options) *Link {
	if o.In == nil {
		o.In = func(f func() error) error { return f() }
	}
	if o.Idle == 0 {
		o.Idle = Idle
	}
	if o.Proto == TLS {
		if o.TLS == nil {
			o.TLS = &tls.Config{ServerName: o.Addr.Addr().String()}
		}
		if o.TLS.ClientSessionCache == nil {
			o.TLS = o.TLS.Clone()
			o.TLS.ClientSessionCache = tls.NewLRUClientSessionCache(4)
		}
	}
	l := &Link{o: o}
	l.udp.link, l.stream.link = l, l
	return l
}

// Exchange sends a question and waits for its answer as long as ctx allows. The ID is chosen here; q is not written to.
// An answer cut short by UDP is fetched by TCP; when that fails, the short one counts.
func (l *Link) Exchange(ctx context.Context, q *dns.Msg) (*dns.Msg, error) {
	ask, err := newQuestion(q)
	if err != nil {
		return nil, err
	}
	if l.o.Proto != UDP {
		return l.over(l.stream.exchange(ctx, ask))
	}
	m, err := l.over(l.udp.exchange(ctx, ask))
	if err != nil || !m.Truncated {
		return m, err
	}
	l.Retried.Add(1)
	if full, err := l.over(l.stream.exchange(ctx, ask)); err == nil {
		return full, nil
	}
	return m, nil
}

func (l *Link) over(m *dns.Msg, err error) (*dns.Msg, error) {
	if err != nil {
		return nil, fmt.Errorf("upstream: %s %s: %w", l.o.Proto, l.o.Addr, err)
	}
	return m, nil
}

// Close closes all sockets; questions in flight fail. A Link that is closed may be used again.
func (l *Link) Close() {
	l.udp.close()
	l.stream.close()
}

// dial opens a connection in our network namespace.
func (l *Link) dial(ctx context.Context, network string) (conn net.Conn, err error) {
	err = l.o.In(func() error {
		var d net.Dialer
		conn, err = d.DialContext(ctx, network, l.o.Addr.String())
		return err
	})
	if err != nil {
		return nil, err
	}
	l.Opened.Add(1)
	return conn, nil
}

var (
	errClosed = errors.New("the connection was closed")
	errBusy   = errors.New("too many questions in flight")
)
