package nethttp

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// Server is the driver. It serves from Start until Drain or Close, by the table that Use was given last.
type Server struct {
	opt       Options
	http      *http.Server
	state     atomic.Pointer[state]
	upstreams map[upstreamKey]*upstream // only the goroutine of Use touches it

	draining atomic.Bool
	inFlight atomic.Int64
	upgraded upgrades

	mu        sync.Mutex
	listeners []net.Listener
	closed    bool
	serving   sync.WaitGroup
}

// New makes a server that listens nowhere yet.
func New(o Options) *Server {
	s := &Server{opt: o.withDefaults(), upstreams: map[upstreamKey]*upstream{}}
	s.http = &http.Server{
		Handler:           s,
		ConnContext:       withConn,
		ReadHeaderTimeout: s.opt.HeaderTimeout,
		IdleTimeout:       s.opt.IdleTimeout,
		MaxHeaderBytes:    s.opt.MaxHeader,
		ErrorLog:          slog.NewLogLogger(s.opt.Log.Handler(), slog.LevelDebug),
		Protocols:         new(http.Protocols),
		HTTP2:             &http.HTTP2Config{MaxConcurrentStreams: 250},
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(true)
	s.http.Protocols.SetUnencryptedHTTP2(true)
	return s
}

// Start opens all sockets and begins to serve; Use must have been called. On an error none is open.
func (s *Server) Start() error {
	if s.state.Load() == nil {
		return errors.New("nethttp: start before the first table")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errors.New("nethttp: start after close")
	case len(s.listeners) > 0:
		return nil
	}
	var open []net.Listener
	add := func(addrs []netip.AddrPort, wrap func(net.Listener) net.Listener) error {
		for _, at := range addrs {
			l, err := s.opt.listen(at)
			if err != nil {
				return fmt.Errorf("nethttp: listen on %s: %w", at, err)
			}
			open = append(open, wrap(l))
		}
		return nil
	}
	err := add(s.opt.HTTP, s.plain)
	if err == nil {
		err = add(s.opt.HTTPS, s.encrypted)
	}
	if err != nil {
		for _, l := range open {
			l.Close()
		}
		return err
	}
	s.listeners = open
	for _, l := range open {
		s.serving.Go(func() { s.serve(l) })
	}
	return nil
}

func (s *Server) serve(l net.Listener) {
	if err := s.http.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		s.opt.Log.Error("ingress listener ended", "addr", l.Addr().String(), "err", err)
	}
}

func (s *Server) plain(l net.Listener) net.Listener {
	return plainListener{Listener: l, refused: s.opt.Observer.Refused}
}

func (s *Server) encrypted(l net.Listener) net.Listener {
	return newTLSListener(l, &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: s.opt.Certificate,
	}, s.opt.Observer)
}

// Addrs are the addresses that are listened on, HTTP first; the ports of those that asked for port 0 are filled in.
func (s *Server) Addrs() []netip.AddrPort {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []netip.AddrPort
	for _, l := range s.listeners {
		if a, ok := l.Addr().(*net.TCPAddr); ok {
			out = append(out, a.AddrPort())
		}
	}
	return out
}

// InFlight is the number of requests and upgraded connections being served.
func (s *Server) InFlight() int64 { return s.inFlight.Load() }

// Drain ends the service without dropping anything: it goes on accepting, because clients and load balancers learn only
// slowly that they should go elsewhere, and asks each client that it answers to close (Connection: close, or GOAWAY). When
// nothing was in flight for Options.Quiet, or when ctx ends, it closes all.
func (s *Server) Drain(ctx context.Context) error {
	s.draining.Store(true)
	const step = 50 * time.Millisecond
	tick := time.NewTicker(step)
	defer tick.Stop()
	for idle := time.Duration(0); idle < s.opt.Quiet; idle += step {
		select {
		case <-ctx.Done():
			return s.Close()
		case <-tick.C:
		}
		if s.inFlight.Load() > 0 {
			idle = 0
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	s.http.Shutdown(ctx) // for what came at the last moment; Close ends what is still there
	return s.Close()
}

// Close ends the service at once.
func (s *Server) Close() error {
	s.draining.Store(true)
	err := s.http.Close()
	s.mu.Lock()
	for _, l := range s.listeners {
		l.Close()
	}
	s.listeners, s.closed = nil, true
	s.mu.Unlock()
	s.serving.Wait()
	s.upgraded.closeAll()
	if st := s.state.Load(); st != nil {
		for b := range st.balancers.Values() {
			for _, u := range b.ups {
				u.transport.CloseIdleConnections()
			}
		}
	}
	return err
}
