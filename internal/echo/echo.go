// Package echo is the demo's server: it says which Pod and node answered and what it saw of the client, over HTTP/1.1,
// HTTP/2, gRPC and WebSocket on one port, and over TCP and UDP on two more. It is also the client for images that hold
// nothing else: get, tcp, udp, grpc, ws, dig, load. It knows nothing of podway.
package echo

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
)

// Config of a Server. An empty address is not served.
type Config struct {
	HTTP  string // HTTP/1.1, HTTP/2 without TLS, gRPC, WebSocket
	TLS   string // the same with TLS
	Cert  string // PEM files for TLS; empty = a certificate made at start
	Key   string
	TCP   string
	UDP   string
	Drain time.Duration // after SIGTERM: not ready, but served, until everybody knows
	Grace time.Duration // after that: for requests under way
	Who   Identity
}

// Server is a running echo server.
type Server struct {
	c        Config
	ready    atomic.Bool
	draining atomic.Bool
	http     *http.Server
	grpc     *grpc.Server
	wg       sync.WaitGroup
	tcp      tcpServer
	udp      []*net.UDPConn
	addrs    map[string]net.Addr // by http, tls, tcp, udp
}

// Start opens all addresses and serves them; the server is ready when it returns.
func Start(c Config) (*Server, error) {
	s := &Server{c: c, addrs: map[string]net.Addr{}}
	s.grpc = s.newGRPC()
	s.http = &http.Server{Handler: s.handler(), Protocols: new(http.Protocols), ReadHeaderTimeout: 10 * time.Second}
	s.http.Protocols.SetHTTP1(true)
	s.http.Protocols.SetHTTP2(true)
	s.http.Protocols.SetUnencryptedHTTP2(true)
	if c.TLS != "" {
		cert, err := certificate(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("echo: tls: %w", err)
		}
		s.http.TLSConfig = cert
	}
	for _, open := range []func() error{s.openHTTP, s.openTLS, s.openTCP, s.openUDP} {
		if err := open(); err != nil {
			s.closeAll()
			return nil, err
		}
	}
	s.ready.Store(true)
	return s, nil
}

func (s *Server) openHTTP() error {
	if s.c.HTTP == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.c.HTTP)
	if err != nil {
		return fmt.Errorf("echo: http: %w", err)
	}
	s.addrs["http"] = l.Addr()
	s.wg.Go(func() { s.ended("http", s.http.Serve(l)) })
	return nil
}

func (s *Server) openTLS() error {
	if s.c.TLS == "" {
		return nil
	}
	l, err := net.Listen("tcp", s.c.TLS)
	if err != nil {
		return fmt.Errorf("echo: tls: %w", err)
	}
	s.addrs["tls"] = l.Addr()
	s.wg.Go(func() { s.ended("tls", s.http.ServeTLS(l, "", "")) })
	return nil
}

func (s *Server) ended(what string, err error) {
	if err != nil && !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
		slog.Error("listener ended", "listener", what, "err", err)
	}
}

// Addr is the address that is served for http, tls, tcp or udp; nil when none is.
func (s *Server) Addr(what string) net.Addr { return s.addrs[what] }

// Stop ends without losing a request: not ready at once, all served for Drain, then no new connections and up to Grace
// for what is under way. When ctx ends it stops at once.
func (s *Server) Stop(ctx context.Context) error {
	s.ready.Store(false)
	s.draining.Store(true)
	slog.Info("draining", "for", s.c.Drain)
	t := time.NewTimer(s.c.Drain)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
		s.closeAll()
		return ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, s.c.Grace)
	defer cancel()
	err := errors.Join(s.http.Shutdown(ctx), s.tcp.shutdown(ctx))
	s.closeAll()
	s.wg.Wait()
	return err
}

func (s *Server) closeAll() {
	s.http.Close()
	s.grpc.Stop()
	s.tcp.close()
	for _, c := range s.udp {
		c.Close()
	}
}
