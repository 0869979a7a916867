package echo

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/podway/podway/internal/kernel/socket"
)

// openUDP opens a socket for each family, so that an answer leaves from the address that was asked, on any machine.
func (s *Server) openUDP() error {
	if s.c.UDP == "" {
		return nil
	}
	addr, err := net.ResolveUDPAddr("udp", s.c.UDP)
	if err != nil {
		return fmt.Errorf("echo: udp: %w", err)
	}
	hosts := []netip.Addr{netip.IPv4Unspecified(), netip.IPv6Unspecified()}
	if a, ok := netip.AddrFromSlice(addr.IP); ok {
		hosts = []netip.Addr{a.Unmap()}
	}
	var errs []error
	port := uint16(addr.Port)
	for _, h := range hosts {
		c, err := socket.ListenUDP(context.Background(), netip.AddrPortFrom(h, port))
		if err != nil {
			errs = append(errs, err)
			continue
		}
		port = uint16(c.LocalAddr().(*net.UDPAddr).Port)
		s.udp = append(s.udp, c)
		s.wg.Go(func() { s.serveUDP(c) })
	}
	if len(s.udp) == 0 {
		return fmt.Errorf("echo: udp: %w", errors.Join(errs...))
	}
	s.addrs["udp"] = s.udp[0].LocalAddr()
	return nil
}

// serveUDP answers each datagram with a line that says who answers, and the datagram.
func (s *Server) serveUDP(c *net.UDPConn) {
	buf, oob := make([]byte, 65535), make([]byte, socket.OOBSize)
	for {
		n, m, _, from, err := c.ReadMsgUDPAddrPort(buf, oob)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		client := netip.AddrPortFrom(from.Addr().Unmap(), from.Port()).String()
		reply := append([]byte(s.c.Who.Line(client)+"\n"), buf[:n]...)
		_, _, _ = c.WriteMsgUDPAddrPort(reply, socket.Reply(oob[:m]), from)
	}
}
