// Package socket opens server sockets with what package net does not offer: several sockets on one address, and on a
// wildcard socket the address that a datagram was sent to. It owns no socket once it is open.
package socket

import (
	"context"
	"net"
	"net/netip"
	"syscall"
)

// ListenUDP opens a UDP socket that others of the same user may share (SO_REUSEPORT): the kernel spreads clients over
// them. On a wildcard address each datagram comes with its destination in a control message: see Reply.
func ListenUDP(ctx context.Context, addr netip.AddrPort) (*net.UDPConn, error) {
	lc := net.ListenConfig{Control: control(func(fd int) error { return shareDatagrams(fd, addr.Addr()) })}
	c, err := lc.ListenPacket(ctx, network("udp", addr), addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.UDPConn), nil
}

// ListenTCP opens a TCP socket that others of the same user may share.
func ListenTCP(ctx context.Context, addr netip.AddrPort) (*net.TCPListener, error) {
	lc := net.ListenConfig{Control: control(share)}
	l, err := lc.Listen(ctx, network("tcp", addr), addr.String())
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// network pins the family, so that a wildcard address stands for its own family alone.
func network(proto string, addr netip.AddrPort) string {
	if addr.Addr().Is4() {
		return proto + "4"
	}
	return proto + "6"
}

func control(f func(fd int) error) func(string, string, syscall.RawConn) error {
	return func(_, _ string, c syscall.RawConn) error {
		var err error
		if e := c.Control(func(fd uintptr) { err = f(int(fd)) }); e != nil {
			return e
		}
		return err
	}
}
