package nettest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// hello is what a raw client says first; anything else on a TCP port is taken for HTTP.
const hello = "who\n"

// Port is a port to listen on.
type Port struct {
	Proto    string // tcp, udp or sctp
	Number   uint16
	Loopback bool // on 127.0.0.1 only, where nobody else reaches it
}

// Server answers on ports of one host with who it is and whom it sees: one line to a raw TCP or UDP client, headers and
// body to an HTTP one.
type Server struct {
	Who string // no blank in it

	mu      sync.Mutex
	closers map[interface{ Close() error }]bool // listeners and open connections
	closed  bool
	running sync.WaitGroup
}

// Serve listens on the ports of the host, all addresses and both families unless a port says otherwise, until Close of
// the server or the World.
func (h *Host) Serve(who string, ports ...Port) (*Server, error) {
	s := &Server{Who: who, closers: map[interface{ Close() error }]bool{}}
	h.world.mu.Lock()
	h.world.servers = append(h.world.servers, s)
	h.world.mu.Unlock()
	return s, s.Listen(h, ports...)
}

// Listen adds ports to the server.
func (s *Server) Listen(h *Host, ports ...Port) error {
	err := h.Do(func() error {
		for _, p := range ports {
			if err := s.listen(p); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("nettest: server %s on %s: %w", s.Who, h.Name, err)
	}
	return nil
}

func (s *Server) listen(p Port) error {
	at := fmt.Sprintf(":%d", p.Number)
	if p.Loopback {
		at = "127.0.0.1" + at
	}
	switch p.Proto {
	case "tcp":
		var lc net.ListenConfig
		lc.SetMultipathTCP(false)
		l, err := lc.Listen(context.Background(), "tcp", at)
		if err != nil {
			return err
		}
		s.serve(l, func() { s.accept(l) })
	case "udp":
		c, err := listenUDP(at)
		if err != nil {
			return err
		}
		s.serve(c, func() { s.echo(c) })
	case "sctp":
		for _, is4 := range []bool{true, false} { // one socket for both families would offer a client the addresses of both
			l, err := listenSCTP(is4, p.Number)
			if err != nil {
				return fmt.Errorf("listen on %s: %w", at, err)
			}
			s.serve(l, func() { s.accept(l) })
		}
	default:
		return fmt.Errorf("listen on %s: protocol %q is none of tcp, udp, sctp", at, p.Proto)
	}
	return nil
}

// serve runs f until it returns; Close closes c first so that it does.
func (s *Server) serve(c interface{ Close() error }, f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c.Close()
		return
	}
	s.closers[c] = true
	s.running.Go(func() {
		f()
		c.Close()
		s.mu.Lock()
		delete(s.closers, c)
		s.mu.Unlock()
	})
}

// Close closes all ports and connections and waits until nothing runs.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.closers {
		c.Close()
	}
	s.mu.Unlock()
	s.running.Wait()
}

func (s *Server) accept(l interface{ Accept() (net.Conn, error) }) {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			s.serve(c, func() { s.talk(c) })
		}
	}
}

// listenUDP opens a socket that tells at which of the host's addresses a packet arrived.
func listenUDP(at string) (*net.UDPConn, error) {
	a, err := net.ResolveUDPAddr("udp", at)
	if err != nil {
		return nil, err
	}
	c, err := net.ListenUDP("udp", a)
	if err != nil {
		return nil, err
	}
	raw, err := c.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_IPV6, unix.IPV6_RECVPKTINFO, 1) // not on an IPv4 socket, which has one address
		})
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// echo answers from the address that was asked: a host may have several, and the kernel would take the one nearest to the
// client.
func (s *Server) echo(c *net.UDPConn) {
	buf, info := make([]byte, 2048), make([]byte, 128)
	for {
		_, n, _, from, err := c.ReadMsgUDPAddrPort(buf, info)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err == nil {
			line := fmt.Sprintf("%s %s\n", s.Who, unmap(from))
			_, _, _ = c.WriteMsgUDPAddrPort([]byte(line), sourceFrom(info[:n]), from) // a lost answer is the client's timeout
		}
	}
}

// sourceFrom turns what was told of a packet into the wish to answer from the address that it was sent to, by whatever
// device: in struct in6_pktinfo the device follows the address.
func sourceFrom(info []byte) []byte {
	const header, address, device = unix.SizeofCmsghdr, 16, 4
	if len(info) < header+address+device {
		return nil
	}
	clear(info[header+address : header+address+device])
	return info
}

func (s *Server) line(from net.Addr) string { return fmt.Sprintf("%s %s\n", s.Who, from) }

func (s *Server) talk(c net.Conn) {
	br := bufio.NewReader(c)
	if first, err := br.Peek(len(hello)); err != nil {
		return
	} else if string(first) == hello {
		_, _ = c.Write([]byte(s.line(c.RemoteAddr())))
		_, _ = br.WriteTo(discard{}) // hold the connection until the client is done
		return
	}
	for {
		r, err := http.ReadRequest(br)
		if err != nil {
			return
		}
		if err := s.answer(c, r); err != nil || r.Close {
			return
		}
	}
}

// answer writes the HTTP response: who, whom it sees, and the request as it arrived.
func (s *Server) answer(c net.Conn, r *http.Request) error {
	var body strings.Builder
	fmt.Fprintf(&body, "%s\n%s %s %s\n", strings.TrimSpace(s.line(c.RemoteAddr())), r.Method, r.Host, r.RequestURI)
	_ = r.Header.Write(&body) // a Builder does not fail
	resp := http.Response{
		StatusCode: http.StatusOK, ProtoMajor: 1, ProtoMinor: 1, Request: r, ContentLength: int64(body.Len()),
		Header: http.Header{headerWho: {s.Who}, headerSaw: {c.RemoteAddr().String()}, "Content-Type": {"text/plain"}},
		Body:   readCloser{strings.NewReader(body.String())},
	}
	return resp.Write(c)
}

const (
	headerWho = "Nettest-Who"
	headerSaw = "Nettest-Saw"
)

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

// insecure shakes hands with anybody: the certificate shown is part of the reply, not a condition.
func insecure(serverName string) *tls.Config {
	return &tls.Config{ServerName: serverName, InsecureSkipVerify: true} //nolint:gosec // test client
}
