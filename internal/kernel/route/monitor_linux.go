package route

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// Monitor tells cheaply whether anything changed in a namespace's devices, addresses, routes or permanent neighbour
// entries since it was asked last, whoever changed it. It is not safe for concurrent use.
type Monitor struct {
	fd  int
	buf []byte
}

// groups are those of linux/rtnetlink.h.
const groups = unix.RTMGRP_LINK | unix.RTMGRP_NEIGH | unix.RTMGRP_IPV4_IFADDR | unix.RTMGRP_IPV4_ROUTE | unix.RTMGRP_IPV6_IFADDR | unix.RTMGRP_IPV6_ROUTE

// OpenMonitor begins to listen; nil is the calling thread's namespace.
func OpenMonitor(ns *netns.NS) (*Monitor, error) {
	m := &Monitor{buf: make([]byte, 64<<10)}
	open := func() (err error) {
		m.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
		if err != nil {
			return fmt.Errorf("route: open monitor: %w", err)
		}
		if err := unix.Bind(m.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups}); err != nil {
			unix.Close(m.fd)
			return fmt.Errorf("route: subscribe: %w", err)
		}
		return nil
	}
	if ns == nil {
		return m, open()
	}
	return m, ns.Do(open)
}

// Close ends listening.
func (m *Monitor) Close() { unix.Close(m.fd) }

// Changed reports whether anything changed since the last call. Losing messages counts as a change.
func (m *Monitor) Changed() (bool, error) {
	changed := false
	for {
		n, _, err := unix.Recvfrom(m.fd, m.buf, 0)
		switch {
		case errors.Is(err, unix.EAGAIN):
			return changed, nil
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ENOBUFS):
			changed = true
		case err != nil:
			return true, fmt.Errorf("route: read monitor: %w", err)
		default:
			changed = changed || matters(m.buf[:n])
		}
	}
}

// matters leaves out neighbour entries that the kernel learns and forgets by itself.
func matters(b []byte) bool {
	for len(b) >= unix.SizeofNlMsghdr {
		size, kind := int(binary.NativeEndian.Uint32(b)), binary.NativeEndian.Uint16(b[4:])
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return true
		}
		body := b[unix.SizeofNlMsghdr:size]
		if kind != unix.RTM_NEWNEIGH && kind != unix.RTM_DELNEIGH {
			return true
		}
		if len(body) < unix.SizeofNdMsg || binary.NativeEndian.Uint16(body[8:])&unix.NUD_PERMANENT != 0 {
			return true
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return false
}
