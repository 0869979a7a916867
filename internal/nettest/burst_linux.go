package nettest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// mostAtOnce bounds the connections that one Burst has open.
const mostAtOnce = 400

// Burst makes many connections from the host at once and asks on each who is there, as Connect does, for a fraction of its
// cost. The replies are in the order of the dials. TCP connections are closed by a reset, so that they leave nothing
// behind on either side.
func (h *Host) Burst(ctx context.Context, dials []Dial) []Reply {
	replies := make([]Reply, len(dials))
	err := h.world.Settle(ctx)
	if err == nil {
		err = h.Do(func() error { return burst(ctx, dials, replies) })
	}
	if err != nil {
		for i := range replies {
			replies[i] = Reply{Result: NoRoute, Err: err}
		}
	}
	return replies
}

// attempt is one connection of a burst.
type attempt struct {
	fd       int
	udp      bool
	asked    bool
	deadline time.Time
	got      []byte
}

// bursting is a burst that runs on one thread.
type bursting struct {
	epoll   int
	dials   []Dial
	replies []Reply
	open    map[int]*attempt // by index of the dial
}

func burst(ctx context.Context, dials []Dial, replies []Reply) error {
	ep, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return fmt.Errorf("nettest: epoll: %w", err)
	}
	defer unix.Close(ep)
	b := &bursting{epoll: ep, dials: dials, replies: replies, open: map[int]*attempt{}}
	events := make([]unix.EpollEvent, 128)
	for next := 0; next < len(dials) || len(b.open) > 0; {
		for ; next < len(dials) && len(b.open) < mostAtOnce; next++ {
			b.start(next)
		}
		n, err := unix.EpollWait(ep, events, b.patience())
		if err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("nettest: epoll: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			b.ready(int(e.Fd))
		}
		b.expire(ctx)
	}
	return nil
}

// patience is the time to the next deadline in milliseconds.
func (b *bursting) patience() int {
	ms := 1000
	for _, a := range b.open {
		ms = min(ms, int(time.Until(a.deadline).Milliseconds())+1)
	}
	return max(ms, 0)
}

func (b *bursting) expire(ctx context.Context) {
	now := time.Now()
	for i, a := range b.open {
		if ctx.Err() != nil || now.After(a.deadline) {
			b.end(i, Reply{Result: Dropped, Err: unix.ETIMEDOUT})
		}
	}
}

// start opens the socket of a dial and begins to connect.
func (b *bursting) start(i int) {
	d := b.dials[i]
	if d.Timeout == 0 {
		d.Timeout = Timeout
	}
	a, err := d.socket()
	if err != nil {
		b.replies[i] = failed(err)
		return
	}
	a.deadline = time.Now().Add(d.Timeout)
	b.open[i] = a
	ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
	if !a.udp {
		ev.Events |= unix.EPOLLOUT
	}
	err = unix.EpollCtl(b.epoll, unix.EPOLL_CTL_ADD, a.fd, &ev)
	if err == nil && a.udp {
		err = a.ask()
	}
	if err != nil {
		b.end(i, failed(err))
	}
}

// socket is a non-blocking one that is connected or about to be.
func (d Dial) socket() (*attempt, error) {
	family, kind := unix.AF_INET, unix.SOCK_STREAM
	if d.Dst.Addr().Is6() {
		family = unix.AF_INET6
	}
	if d.Proto == "udp" {
		kind = unix.SOCK_DGRAM
	}
	fd, err := unix.Socket(family, kind|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	a := &attempt{fd: fd, udp: d.Proto == "udp"}
	if err := d.connect(fd, family); err != nil && !errors.Is(err, unix.EINPROGRESS) {
		unix.Close(fd)
		return nil, err
	}
	return a, nil
}

func (d Dial) connect(fd, family int) error {
	if d.Proto != "udp" {
		if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1}); err != nil {
			return err
		}
	}
	if d.Mark != 0 {
		if err := unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_MARK, d.Mark); err != nil {
			return err
		}
	}
	if d.Src.IsValid() || d.SrcPort != 0 {
		src := d.Src
		if !src.IsValid() && family == unix.AF_INET {
			src = netip.IPv4Unspecified()
		} else if !src.IsValid() {
			src = netip.IPv6Unspecified()
		}
		if err := unix.Bind(fd, sockaddr(netip.AddrPortFrom(src, d.SrcPort))); err != nil {
			return err
		}
	}
	return unix.Connect(fd, sockaddr(d.Dst))
}

func sockaddr(a netip.AddrPort) unix.Sockaddr {
	if a.Addr().Is4() {
		return &unix.SockaddrInet4{Port: int(a.Port()), Addr: a.Addr().As4()}
	}
	return &unix.SockaddrInet6{Port: int(a.Port()), Addr: a.Addr().As16()}
}

// ask sends the question. A datagram that the host's own rules hold back is an error to its sender at once, which says
// neither that it was refused nor that it was dropped: whether an answer to it comes does.
func (a *attempt) ask() error {
	a.asked = true
	_, err := unix.Write(a.fd, []byte(hello))
	if a.udp && errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// ready goes on with a connection that has news.
func (b *bursting) ready(i int) {
	a := b.open[i]
	if a == nil {
		return
	}
	if err := b.step(i, a); err != nil && !errors.Is(err, unix.EAGAIN) {
		b.end(i, failed(err))
	}
}

func (b *bursting) step(i int, a *attempt) error {
	if !a.asked {
		if code, err := unix.GetsockoptInt(a.fd, unix.SOL_SOCKET, unix.SO_ERROR); err != nil || code != 0 {
			return errors.Join(err, unix.Errno(code))
		}
		ev := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(i)}
		if err := unix.EpollCtl(b.epoll, unix.EPOLL_CTL_MOD, a.fd, &ev); err != nil {
			return err
		}
		return a.ask()
	}
	buf := make([]byte, 512)
	n, err := unix.Read(a.fd, buf)
	if err != nil {
		return err
	}
	a.got = append(a.got, buf[:n]...)
	line, _, whole := strings.Cut(string(a.got), "\n")
	switch {
	case whole:
		b.end(i, parse(line))
	case n == 0:
		b.end(i, Reply{Result: Refused, Err: unix.ECONNRESET})
	}
	return nil
}

func (b *bursting) end(i int, r Reply) {
	unix.Close(b.open[i].fd)
	delete(b.open, i)
	b.replies[i] = r
}
