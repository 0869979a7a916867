// Package server owns the DNS server's sockets: UDP and TCP on given addresses. Names of the cluster are answered from
// the current view where the datagram was read, without allocation; all else takes the slow path on miekg/dns. It knows
// how to answer nothing by itself.
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/hop/dns/answers"
	blocks "github.com/podway/podway/internal/hop/dns/zones"
	"github.com/podway/podway/internal/kernel/socket"
)

// Upstream asks other servers.
type Upstream = blocks.Upstream

// Handler answers a question that is not answered where it was read; a nil message is no answer at all.
type Handler func(ctx context.Context, q *dns.Msg, from netip.AddrPort, tcp bool) (*dns.Msg, answers.Zone)

// Cached appends to dst[:0] the answer that is at hand for a question that is not the cluster's, and its rcode; false = none.
// It is called where the datagram was read: it never waits, allocates nothing, and keeps neither dst nor msg. turn is any
// number: it decides which of several addresses comes first.
type Cached func(a answers.Asked, dst, msg []byte, turn uint32, now time.Time) (reply []byte, rcode int, ok bool)

// Options of a Server.
type Options struct {
	Listen   []netip.AddrPort         // UDP and TCP on each
	In       func(func() error) error // opens sockets in another network namespace; nil = this one
	View     func() *answers.View     // the current view; never nil
	Handler  Handler                  // the slow path; nil = the view's names, and Upstream for all others
	Upstream Upstream                 // without Handler; nil = names that are not the cluster's are refused
	Cached   Cached                   // nil = names that are not the cluster's always take the slow path
	Transfer Transfer                 // nil = no zone is transferred
	Metrics  *Metrics                 // nil = none
	Sockets  int                      // UDP sockets per address; 0 = one per processor
	MaxConns int                      // TCP connections at a time; 0 = 1000
	MaxSlow  int                      // questions on the slow path at a time; 0 = 2000
}

// Server answers DNS questions.
type Server struct {
	o     Options
	slots chan struct{} // one for each question on the slow path
	conns *crowd        // TCP connections
	quit  context.Context
	stop  context.CancelFunc
	wg    sync.WaitGroup

	mu   sync.Mutex
	open map[netip.AddrPort]*listener // by the address in Options
}

// listener is the sockets of one address.
type listener struct {
	addr netip.AddrPort // with the port that the kernel chose
	udp  []*net.UDPConn
	tcp  *net.TCPListener
}

// New makes a Server; it opens nothing.
func New(o Options) *Server {
	if o.Sockets == 0 {
		o.Sockets = runtime.GOMAXPROCS(0)
	}
	if o.MaxConns == 0 {
		o.MaxConns = 1000
	}
	if o.MaxSlow == 0 {
		o.MaxSlow = 2000
	}
	if o.In == nil {
		o.In = func(f func() error) error { return f() }
	}
	if o.Metrics == nil {
		o.Metrics = NewMetrics("")
	}
	if o.Handler == nil {
		o.Handler = blocks.Plain(o.View, o.Upstream).Serve
	}
	s := &Server{o: o, slots: make(chan struct{}, o.MaxSlow), conns: &crowd{limit: o.MaxConns, open: map[*tcpConn]bool{}}, open: map[netip.AddrPort]*listener{}}
	s.quit, s.stop = context.WithCancel(context.Background())
	return s
}

// Listen opens the addresses that are not open yet and serves them. Those that cannot be opened are in the error, with
// the remedy; the others are served nevertheless.
func (s *Server) Listen(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.quit.Err() != nil {
		return errors.New("dns: the server is closed")
	}
	var errs []error
	for _, addr := range s.o.Listen {
		if s.open[addr] != nil {
			continue
		}
		var l *listener
		err := s.o.In(func() (err error) {
			l, err = s.listen(ctx, addr)
			return err
		})
		if err != nil {
			errs = append(errs, fmt.Errorf("dns: listen on %s: %w%s", addr, err, remedy(err, addr)))
			continue
		}
		s.open[addr] = l
		s.serve(l)
		slog.Info("DNS server listens", "hop", "dns", "address", l.addr)
	}
	return errors.Join(errs...)
}

// listen opens the sockets of one address, all or none.
func (s *Server) listen(ctx context.Context, addr netip.AddrPort) (*listener, error) {
	l, err := s.listenOnce(ctx, addr)
	for tries := 0; addr.Port() == 0 && errors.Is(err, syscall.EADDRINUSE) && tries < 20; tries++ {
		l, err = s.listenOnce(ctx, addr) // the port that the kernel gave for UDP was somebody's for TCP
	}
	return l, err
}

func (s *Server) listenOnce(ctx context.Context, addr netip.AddrPort) (*listener, error) {
	l := &listener{addr: addr}
	for range s.o.Sockets {
		c, err := socket.ListenUDP(ctx, l.addr)
		if err != nil {
			l.close()
			return nil, err
		}
		_ = c.SetReadBuffer(1 << 20) // a burst waits rather than being lost; the kernel may give less
		l.udp = append(l.udp, c)
		l.addr = netip.AddrPortFrom(addr.Addr(), uint16(c.LocalAddr().(*net.UDPAddr).Port))
	}
	var err error
	if l.tcp, err = socket.ListenTCP(ctx, l.addr); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *listener) close() {
	for _, c := range l.udp {
		c.Close()
	}
	if l.tcp != nil {
		l.tcp.Close()
	}
}

func (s *Server) serve(l *listener) {
	for _, c := range l.udp {
		s.wg.Go(func() { s.serveUDP(c) })
	}
	s.wg.Go(func() { s.serveTCP(l.tcp) })
}

// remedy says what a user can do about an address that cannot be opened.
func remedy(err error, addr netip.AddrPort) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Sprintf(" (another DNS server has it: see `ss -lntup 'sport = :%d'`, stop it or listen elsewhere)", addr.Port())
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return " (no device of this machine has the address: see `ip address`)"
	case errors.Is(err, syscall.EACCES):
		return " (a port below 1024 needs CAP_NET_BIND_SERVICE)"
	}
	return ""
}

// Addrs returns the addresses that are open, in the order of Options.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []netip.AddrPort
	for _, addr := range s.o.Listen {
		if l := s.open[addr]; l != nil {
			out = append(out, l.addr)
		}
	}
	return out
}

// Close closes all sockets and waits, as long as ctx allows, for questions that are being answered.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.stop()
	for addr, l := range s.open {
		l.close()
		delete(s.open, addr)
	}
	s.mu.Unlock()
	done := make(chan struct{})
	go func() { s.wg.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("dns: close: questions are still being answered: %w", ctx.Err())
	}
}
