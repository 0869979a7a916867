package podnettest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"time"
)

// Serve answers on TCP and UDP until the test ends: a connection is told the client's address and then gets back what it
// sends; a datagram is answered with the client's address and the datagram's length.
func (h *Host) Serve(addr string) {
	h.t.Helper()
	h.Must(h.NS.Do(func() error {
		family := ""
		if strings.HasPrefix(addr, "[") {
			family = "6" // [::] without it is IPv4 too
		}
		l, err := net.Listen("tcp"+family, addr)
		if err != nil {
			return err
		}
		u, err := net.ListenPacket("udp"+family, addr)
		if err != nil {
			l.Close()
			return err
		}
		h.t.Cleanup(func() { l.Close(); u.Close() })
		go serveTCP(l)
		go serveUDP(u)
		return nil
	}))
}

func serveTCP(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			fmt.Fprintf(c, "%s\n", host(c.RemoteAddr()))
			io.Copy(c, c)
		}()
	}
}

func serveUDP(u net.PacketConn) {
	b := make([]byte, 65536)
	for {
		n, from, err := u.ReadFrom(b)
		if err != nil {
			return
		}
		u.WriteTo(fmt.Appendf(nil, "%s %d", host(from), n), from)
	}
}

func host(a net.Addr) string {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return a.String()
	}
	return ap.Addr().Unmap().String()
}

// Call connects to addr by TCP, sends and gets back size bytes, and returns the client's address as the server saw it.
// The connection must be there within the time of one lost packet.
func (h *Host) Call(addr string, size int) (saw string, err error) {
	return h.CallWithin(800*time.Millisecond, addr, size) // a lost SYN is sent anew after a second
}

// CallWithin is Call with more patience for the connection.
func (h *Host) CallWithin(patience time.Duration, addr string, size int) (saw string, err error) {
	return h.call(net.Dialer{Timeout: patience}, addr, size)
}

// CallFrom is Call from an address of the host's own.
func (h *Host) CallFrom(source, addr string, size int) (saw string, err error) {
	return h.call(net.Dialer{Timeout: 800 * time.Millisecond, LocalAddr: &net.TCPAddr{IP: net.ParseIP(source)}}, addr, size)
}

func (h *Host) call(d net.Dialer, addr string, size int) (saw string, err error) {
	err = h.NS.Do(func() error {
		d.SetMultipathTCP(false)
		c, err := d.DialContext(context.Background(), "tcp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		c.SetDeadline(time.Now().Add(5 * time.Second))
		saw, err = readLine(c)
		if err != nil {
			return err
		}
		go c.Write(make([]byte, size))
		_, err = io.ReadFull(c, make([]byte, size))
		return err
	})
	return saw, err
}

func readLine(c net.Conn) (string, error) {
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := c.Read(b); err != nil {
			return "", err
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
}

// Datagram sends one UDP datagram of size bytes that must not be fragmented and waits for the answer. It returns the
// client's address as the server saw it; syscall.EMSGSIZE when it is too large for the way.
func (h *Host) Datagram(addr string, size int) (saw string, err error) {
	err = h.NS.Do(func() error {
		d := net.Dialer{Control: dontFragment}
		c, err := d.DialContext(context.Background(), "udp", addr)
		if err != nil {
			return err
		}
		defer c.Close()
		if _, err := c.Write(make([]byte, size)); err != nil {
			return err
		}
		c.SetReadDeadline(time.Now().Add(time.Second))
		b := make([]byte, 200)
		n, err := c.Read(b)
		if err != nil {
			return err
		}
		var got int
		if _, err := fmt.Sscanf(string(b[:n]), "%s %d", &saw, &got); err != nil || got != size {
			return fmt.Errorf("answer %q to %d bytes", b[:n], size)
		}
		return nil
	})
	return saw, err
}

// dontFragment sets the don't fragment bit for what the way's MTU lets through, and refuses the rest.
func dontFragment(network, _ string, raw syscall.RawConn) error {
	var err error
	cerr := raw.Control(func(fd uintptr) {
		if strings.HasSuffix(network, "6") {
			err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IPV6, syscall.IPV6_MTU_DISCOVER, syscall.IPV6_PMTUDISC_DO)
			return
		}
		err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, syscall.IP_MTU_DISCOVER, syscall.IP_PMTUDISC_DO)
	})
	return errors.Join(err, cerr)
}

// ServeName answers every datagram with a name.
func (h *Host) ServeName(addr, name string) {
	h.t.Helper()
	h.Must(h.NS.Do(func() error {
		u, err := net.ListenPacket("udp", addr)
		if err != nil {
			return err
		}
		h.t.Cleanup(func() { u.Close() })
		go func() {
			for b := make([]byte, 100); ; {
				_, from, err := u.ReadFrom(b)
				if err != nil {
					return
				}
				u.WriteTo([]byte(name), from)
			}
		}()
		return nil
	}))
}

// Sender returns a function that sends a datagram to addr, always from the same port, and waits a moment for the answer.
func (h *Host) Sender(addr string) func() (answer string, err error) {
	h.t.Helper()
	var u net.PacketConn
	to, err := net.ResolveUDPAddr("udp", addr)
	h.Must(err)
	h.Must(h.NS.Do(func() (err error) { u, err = net.ListenPacket("udp4", ":0"); return err }))
	h.t.Cleanup(func() { u.Close() })
	return func() (string, error) {
		if _, err := u.WriteTo([]byte("who"), to); err != nil {
			return "", err
		}
		u.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
		b := make([]byte, 100)
		n, _, err := u.ReadFrom(b)
		return string(b[:n]), err
	}
}
