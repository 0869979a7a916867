package packet

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// EtherTypeARP is ETH_P_ARP.
const EtherTypeARP = unix.ETH_P_ARP

const maxFrame = 1600

// Conn is an open packet socket. Read and Write may be used at the same time; Close ends a Read.
type Conn struct {
	f         *os.File
	raw       syscall.RawConn
	index     int
	etherType uint16
	buf       [maxFrame]byte
}

// Listen opens a socket for one EtherType on the device with the index, in the namespace; nil is the calling thread's.
func Listen(ns *netns.NS, index int, etherType uint16) (*Conn, error) {
	c := &Conn{index: index, etherType: etherType}
	open := func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0) // protocol 0: nothing until bound
		if err != nil {
			return fmt.Errorf("packet: open socket: %w (CAP_NET_RAW is needed)", err)
		}
		if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: bigEndian(etherType), Ifindex: index}); err != nil {
			unix.Close(fd)
			return fmt.Errorf("packet: bind to device %d: %w", index, err)
		}
		c.f = os.NewFile(uintptr(fd), "packet")
		return nil
	}
	do := func(f func() error) error { return f() }
	if ns != nil {
		do = ns.Do
	}
	if err := do(open); err != nil {
		return nil, err
	}
	raw, err := c.f.SyscallConn()
	if err != nil {
		c.f.Close()
		return nil, fmt.Errorf("packet: %w", err)
	}
	c.raw = raw
	return c, nil
}

// Read waits for the next frame. It ends with net.ErrClosed after Close, and with ENETDOWN once when the device goes down.
func (c *Conn) Read() (f Frame, err error) {
	var n int
	var from unix.Sockaddr
	rerr := c.raw.Read(func(fd uintptr) bool {
		n, from, err = unix.Recvfrom(int(fd), c.buf[:], 0)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	if rerr != nil { // only closing the file does that
		return f, fmt.Errorf("packet: read: %w", net.ErrClosed)
	}
	if err != nil {
		return f, fmt.Errorf("packet: read: %w", err)
	}
	f.Payload = c.buf[:n]
	if ll, ok := from.(*unix.SockaddrLinklayer); ok {
		copy(f.From[:], ll.Addr[:min(int(ll.Halen), len(f.From))])
		f.Outgoing = ll.Pkttype == unix.PACKET_OUTGOING
	}
	return f, nil
}

// Write sends one frame.
func (c *Conn) Write(to MAC, payload []byte) (err error) {
	addr := &unix.SockaddrLinklayer{Protocol: bigEndian(c.etherType), Ifindex: c.index, Halen: uint8(len(to))}
	copy(addr.Addr[:], to[:])
	werr := c.raw.Write(func(fd uintptr) bool {
		err = unix.Sendto(int(fd), payload, 0, addr)
		return !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR)
	})
	if werr != nil {
		return fmt.Errorf("packet: write: %w", net.ErrClosed)
	}
	if err != nil {
		return fmt.Errorf("packet: write: %w", err)
	}
	return nil
}

// Close ends the socket.
func (c *Conn) Close() error { return c.f.Close() }

// bigEndian is htons.
func bigEndian(v uint16) uint16 { return binary.NativeEndian.Uint16([]byte{byte(v >> 8), byte(v)}) }
