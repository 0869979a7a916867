package nettest

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// sctpConn is one SCTP association, in the style of a stream, as package net has none.
type sctpConn struct {
	*os.File
	local, remote netip.AddrPort
}

func (c *sctpConn) LocalAddr() net.Addr  { return net.TCPAddrFromAddrPort(c.local) }
func (c *sctpConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.remote) }

// sctpListener accepts associations.
type sctpListener struct {
	*os.File
	closed atomic.Bool
}

func (l *sctpListener) Close() error {
	l.closed.Store(true)
	return l.File.Close()
}

func sctpSocket(family int) (int, error) {
	return unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, unix.IPPROTO_SCTP)
}

// listenSCTP listens on all addresses of one family of the calling thread's namespace.
func listenSCTP(is4 bool, port uint16) (*sctpListener, error) {
	family, at := unix.AF_INET, netip.IPv4Unspecified()
	if !is4 {
		family, at = unix.AF_INET6, netip.IPv6Unspecified()
	}
	fd, err := sctpSocket(family)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if !is4 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1)
	}
	if err == nil {
		err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(at, port)))
	}
	if err == nil {
		err = unix.Listen(fd, 64)
	}
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("listen", err)
	}
	return &sctpListener{File: os.NewFile(uintptr(fd), "sctp listener")}, nil
}

// Accept waits for the next association.
func (l *sctpListener) Accept() (net.Conn, error) {
	raw, err := l.SyscallConn()
	if l.closed.Load() {
		return nil, net.ErrClosed
	}
	if err != nil {
		return nil, err
	}
	var fd int
	var from unix.Sockaddr
	var failed error
	err = raw.Read(func(s uintptr) bool {
		fd, from, failed = unix.Accept4(int(s), unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC)
		return failed != unix.EAGAIN
	})
	if l.closed.Load() {
		err = net.ErrClosed
	}
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return &sctpConn{File: os.NewFile(uintptr(fd), "sctp"), remote: addrPortOf(from)}, nil
}

// dialSCTP connects on the calling thread, in its namespace, without blocking it: a signal would end a blocking connect.
func (d Dial) dialSCTP(ctx context.Context) (net.Conn, error) {
	family := unix.AF_INET
	if d.Dst.Addr().Is6() {
		family = unix.AF_INET6
	}
	fd, err := sctpSocket(family)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if d.Mark != 0 {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, d.Mark)
	}
	if err == nil && (d.Src.IsValid() || d.SrcPort != 0) {
		src := d.Src
		if !src.IsValid() {
			src = netip.IPv4Unspecified()
			if family == unix.AF_INET6 {
				src = netip.IPv6Unspecified()
			}
		}
		err = unix.Bind(fd, sockaddr(netip.AddrPortFrom(src, d.SrcPort)))
	}
	if err == nil {
		if err = unix.Connect(fd, sockaddr(d.Dst)); err == unix.EINPROGRESS {
			err = nil
		}
	}
	if err != nil {
		unix.Close(fd)
		return nil, os.NewSyscallError("connect", err)
	}
	c := &sctpConn{File: os.NewFile(uintptr(fd), "sctp"), remote: d.Dst}
	if err := c.established(ctx); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// established waits until the association is up.
func (c *sctpConn) established(ctx context.Context) error {
	if deadline, ok := ctx.Deadline(); ok {
		if err := c.SetDeadline(deadline); err != nil {
			return err
		}
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return err
	}
	var failed error
	err = raw.Write(func(s uintptr) bool {
		n, e := unix.GetsockoptInt(int(s), unix.SOL_SOCKET, unix.SO_ERROR)
		switch {
		case e != nil:
			failed = e
		case n != 0:
			failed = unix.Errno(n)
		default:
			_, e = unix.Getpeername(int(s))
			return e == nil
		}
		return true
	})
	if failed != nil {
		return os.NewSyscallError("connect", failed)
	}
	if err != nil {
		return err
	}
	return c.SetDeadline(time.Time{})
}

func addrPortOf(s unix.Sockaddr) netip.AddrPort {
	switch s := s.(type) {
	case *unix.SockaddrInet4:
		return netip.AddrPortFrom(netip.AddrFrom4(s.Addr), uint16(s.Port))
	case *unix.SockaddrInet6:
		return netip.AddrPortFrom(netip.AddrFrom16(s.Addr), uint16(s.Port))
	}
	return netip.AddrPort{}
}
