package nettest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Timeout is how long a client waits before it calls a connection dropped, when the Dial does not say.
const Timeout = 300 * time.Millisecond

// Result is what became of a connection.
type Result string

// The results.
const (
	Reached Result = "reached"  // a Server, or an HTTP server, answered
	Refused Result = "refused"  // reset or port unreachable
	NoRoute Result = "no route" // network or host unreachable, or forbidden, said by somebody
	Dropped Result = "dropped"  // silence
)

// Dial says where to connect to and how.
type Dial struct {
	Proto   string // tcp, udp or sctp
	Dst     netip.AddrPort
	Src     netip.Addr    // zero: the kernel chooses
	SrcPort uint16        // 0: the kernel chooses
	Mark    int           // of the socket, from Via
	Timeout time.Duration // 0: Timeout
}

// Reply is what a client saw.
type Reply struct {
	Result Result
	Who    string         // the Server that answered, "" when it was none of ours
	Saw    netip.AddrPort // the client as that Server saw it
	Status int            // HTTP only
	Header http.Header    // HTTP only
	Cert   []string       // HTTPS only: the DNS names of the certificate shown
	Err    error          // why, unless reached
}

// Connect opens a connection from the host, asks who is there and closes it.
func (h *Host) Connect(ctx context.Context, d Dial) Reply {
	if err := h.world.Settle(ctx); err != nil {
		return Reply{Result: NoRoute, Err: err}
	}
	var r Reply
	err := h.Do(func() error {
		c, cancel, err := d.open(ctx)
		if err != nil {
			r = failed(err)
			return nil
		}
		defer cancel()
		defer c.Close()
		r = ask(c)
		return nil
	})
	if err != nil {
		return Reply{Result: NoRoute, Err: err}
	}
	return r
}

// open connects on the calling thread, in its namespace.
func (d Dial) open(ctx context.Context) (net.Conn, context.CancelFunc, error) {
	if d.Timeout == 0 {
		d.Timeout = Timeout
	}
	deadline := time.Now().Add(d.Timeout)
	ctx, cancel := context.WithDeadline(ctx, deadline)
	nd := net.Dialer{Control: d.mark}
	nd.SetMultipathTCP(false)
	switch {
	case d.Proto == "sctp":
	case !d.Src.IsValid() && d.SrcPort == 0:
	case d.Proto == "udp":
		nd.LocalAddr = net.UDPAddrFromAddrPort(netip.AddrPortFrom(d.Src, d.SrcPort))
	default:
		nd.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(d.Src, d.SrcPort))
	}
	dial := func() (net.Conn, error) { return nd.DialContext(ctx, d.Proto, d.Dst.String()) }
	if d.Proto == "sctp" {
		dial = func() (net.Conn, error) { return d.dialSCTP(ctx) }
	}
	c, err := dial()
	if err != nil {
		cancel()
		return nil, nil, err
	}
	if err := c.SetDeadline(deadline); err != nil {
		c.Close()
		cancel()
		return nil, nil, err
	}
	return c, cancel, nil
}

func (d Dial) mark(_, _ string, raw syscall.RawConn) error {
	if d.Mark == 0 {
		return nil
	}
	var err error
	if cerr := raw.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK, d.Mark) }); cerr != nil {
		return cerr
	}
	return err
}

// ask says hello and reads who answers.
func ask(c net.Conn) Reply {
	if _, err := c.Write([]byte(hello)); err != nil {
		return failed(err)
	}
	line, err := bufio.NewReader(c).ReadString('\n')
	if err != nil {
		return failed(err)
	}
	return parse(line)
}

// parse reads a Server's line.
func parse(line string) Reply {
	who, saw, _ := strings.Cut(strings.TrimSpace(line), " ")
	from, err := netip.ParseAddrPort(saw)
	if err != nil { // somebody else's protocol
		return Reply{Result: Reached}
	}
	return Reply{Result: Reached, Who: who, Saw: unmap(from)}
}

// Get asks for a URL from the host, always at d.Dst, whatever the URL's host says; the host becomes Host header and SNI.
// Redirects are not followed.
func (h *Host) Get(ctx context.Context, d Dial, rawURL string, header http.Header) Reply {
	u, err := url.Parse(rawURL)
	if err != nil {
		return Reply{Result: NoRoute, Err: err}
	}
	if err := h.world.Settle(ctx); err != nil {
		return Reply{Result: NoRoute, Err: err}
	}
	d.Proto = "tcp"
	var r Reply
	err = h.Do(func() error {
		c, cancel, err := d.open(ctx)
		if err != nil {
			r = failed(err)
			return nil
		}
		defer cancel()
		defer c.Close()
		r = exchange(ctx, c, u, header)
		return nil
	})
	if err != nil {
		return Reply{Result: NoRoute, Err: err}
	}
	return r
}

func exchange(ctx context.Context, c net.Conn, u *url.URL, header http.Header) Reply {
	var r Reply
	if u.Scheme == "https" {
		t := tls.Client(c, insecure(u.Hostname()))
		if err := t.HandshakeContext(ctx); err != nil {
			return failed(err)
		}
		c = t
		if certs := t.ConnectionState().PeerCertificates; len(certs) > 0 {
			r.Cert = append([]string{}, certs[0].DNSNames...)
		}
	}
	req := &http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: header.Clone(), Close: true}
	if req.Header == nil {
		req.Header = http.Header{}
	}
	if err := req.Write(c); err != nil {
		return failed(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), req)
	if err != nil {
		return failed(err)
	}
	defer resp.Body.Close()
	r.Result, r.Status, r.Header = Reached, resp.StatusCode, resp.Header
	r.Who = resp.Header.Get(headerWho)
	if saw, err := netip.ParseAddrPort(resp.Header.Get(headerSaw)); err == nil {
		r.Saw = unmap(saw)
	}
	return r
}

// failed sorts an error of a socket into a Result.
func failed(err error) Reply {
	r := Reply{Result: Dropped, Err: err}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		r.Result = Refused
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded), errors.Is(err, syscall.ETIMEDOUT):
	case errors.Is(err, syscall.EINVAL): // what the kernel tells a local sender of a blackhole route; others hear nothing
	case errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.EACCES), errors.Is(err, syscall.EPERM):
		r.Result = NoRoute
	default:
		r.Err = fmt.Errorf("neither answered nor refused: %w", err)
	}
	return r
}

func unmap(a netip.AddrPort) netip.AddrPort { return netip.AddrPortFrom(a.Addr().Unmap(), a.Port()) }
