package socket

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// mmsghdr is struct mmsghdr of recvmmsg(2), which package unix does not have.
type mmsghdr struct {
	hdr unix.Msghdr
	n   uint32 // bytes received or sent
}

// many is a Batch on recvmmsg(2) and sendmmsg(2).
type many struct {
	raw      syscall.RawConn
	in, out  []mmsghdr
	from     []unix.RawSockaddrInet6 // large enough for both families
	oob      []byte                  // OOBSize for each datagram
	buf      []byte                  // question bytes for each datagram
	room     []byte                  // answer bytes for each datagram
	inIov    []unix.Iovec
	outIov   []unix.Iovec
	question int
	answer   int
	got      int
	queued   int
	sent     int
	errno    syscall.Errno
	refused  syscall.Errno // of the last answer that could not be sent
	recv     func(fd uintptr) bool
	send     func(fd uintptr) bool
	none     byte
}

// NewBatch makes a Batch of n datagrams: question and answer are the largest sizes in bytes. Where the kernel or a
// filter of system calls has no recvmmsg it is a plain one.
func NewBatch(c *net.UDPConn, n, question, answer int) (Batch, error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("socket: batch: %w", err)
	}
	b := &many{raw: raw, in: make([]mmsghdr, n), out: make([]mmsghdr, n), from: make([]unix.RawSockaddrInet6, n),
		oob: make([]byte, n*OOBSize), buf: make([]byte, n*question), room: make([]byte, n*answer),
		inIov: make([]unix.Iovec, n), outIov: make([]unix.Iovec, n), question: question, answer: answer}
	for i := range n {
		b.inIov[i].Base = &b.buf[i*question]
		b.inIov[i].SetLen(question)
		h := &b.in[i].hdr
		h.Name, h.Iov = (*byte)(unsafe.Pointer(&b.from[i])), &b.inIov[i]
		h.SetIovlen(1)
		h.Control = &b.oob[i*OOBSize]
		b.out[i].hdr.Iov = &b.outIov[i]
		b.out[i].hdr.SetIovlen(1)
	}
	b.reset(n)
	b.recv, b.send = b.receiveNow, b.sendNow
	if !b.supported() {
		return NewPlain(c, question, answer), nil
	}
	return b, nil
}

// supported asks for no datagram at all, which every kernel that has both calls grants.
func (b *many) supported() bool {
	var one, two syscall.Errno
	err := b.raw.Control(func(fd uintptr) {
		_, _, one = unix.Syscall6(unix.SYS_RECVMMSG, fd, 0, 0, unix.MSG_DONTWAIT, 0, 0)
		_, _, two = unix.Syscall6(unix.SYS_SENDMMSG, fd, 0, 0, unix.MSG_DONTWAIT, 0, 0)
	})
	bad := func(e syscall.Errno) bool { return e == unix.ENOSYS || e == unix.EPERM || e == unix.EACCES }
	return err == nil && !bad(one) && !bad(two)
}

func (b *many) Receive() (int, error) {
	b.reset(b.got)
	b.got, b.queued = 0, 0
	if err := b.raw.Read(b.recv); err != nil {
		return 0, err
	}
	if b.errno != 0 {
		return 0, fmt.Errorf("socket: receive: %w", b.errno)
	}
	return b.got, nil
}

// reset gives the room for addresses and control messages of the first n datagrams, which the kernel wrote over.
func (b *many) reset(n int) {
	for i := range n {
		h := &b.in[i].hdr
		h.Namelen = unix.SizeofSockaddrInet6
		h.SetControllen(OOBSize)
	}
}

// receiveNow takes what is there; false = nothing, wait.
func (b *many) receiveNow(fd uintptr) bool {
	for {
		n, _, e := unix.Syscall6(unix.SYS_RECVMMSG, fd, uintptr(unsafe.Pointer(&b.in[0])), uintptr(len(b.in)), unix.MSG_DONTWAIT, 0, 0)
		switch b.errno = e; e {
		case unix.EINTR:
			continue
		case unix.EAGAIN:
			return false
		case 0:
			b.got = int(n)
		}
		return true
	}
}

func (b *many) Message(i int) []byte {
	return b.buf[i*b.question : i*b.question+int(b.in[i].n)]
}

func (b *many) IsV6(i int) bool {
	a := &b.from[i]
	return a.Family == unix.AF_INET6 && !netip.AddrFrom16(a.Addr).Is4In6()
}

func (b *many) Peer(i int) (netip.AddrPort, []byte) {
	var control []byte
	if c := b.control(i); c != nil {
		control = append(control, c...)
	}
	a := &b.from[i]
	port := binary.BigEndian.Uint16((*[2]byte)(unsafe.Pointer(&a.Port))[:])
	if a.Family == unix.AF_INET {
		p := (*unix.RawSockaddrInet4)(unsafe.Pointer(a))
		return netip.AddrPortFrom(netip.AddrFrom4(p.Addr), port), control
	}
	addr := netip.AddrFrom16(a.Addr)
	if a.Scope_id != 0 {
		addr = addr.WithZone(strconv.Itoa(int(a.Scope_id)))
	}
	return netip.AddrPortFrom(addr, port), control
}

// control is the control message of the answer to datagram i, made in place; nil when there is none to send.
func (b *many) control(i int) []byte {
	n := int(b.in[i].hdr.Controllen)
	if n == 0 {
		return nil
	}
	return Reply(b.oob[i*OOBSize : i*OOBSize+n])
}

func (b *many) Room(i int) []byte { return b.room[i*b.answer : i*b.answer : (i+1)*b.answer] }

func (b *many) Answer(i int, msg []byte) {
	iov, h := &b.outIov[b.queued], &b.out[b.queued].hdr
	iov.Base = &b.none
	if len(msg) > 0 {
		iov.Base = &msg[0]
	}
	iov.SetLen(len(msg))
	h.Name, h.Namelen = b.in[i].hdr.Name, b.in[i].hdr.Namelen
	h.Control = nil
	c := b.control(i)
	if len(c) > 0 {
		h.Control = &c[0]
	}
	h.SetControllen(len(c))
	b.queued++
}

func (b *many) Send() error {
	if b.queued == 0 {
		return nil
	}
	b.sent, b.refused = 0, 0
	if err := b.raw.Write(b.send); err != nil {
		return err
	}
	b.queued = 0
	if b.refused != 0 {
		return fmt.Errorf("socket: send: %w", b.refused)
	}
	return nil
}

// sendNow sends what is left; false = the socket's buffer is full, wait.
func (b *many) sendNow(fd uintptr) bool {
	for b.sent < b.queued {
		n, _, e := unix.Syscall6(unix.SYS_SENDMMSG, fd, uintptr(unsafe.Pointer(&b.out[b.sent])), uintptr(b.queued-b.sent), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case e == unix.EINTR:
		case e == unix.EAGAIN:
			return false
		case e != 0: // of the first that is left: the others may go
			b.refused = e
			b.sent++
		default:
			b.sent += int(n)
		}
	}
	return true
}
