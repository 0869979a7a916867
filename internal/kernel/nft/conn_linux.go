package nft

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/podway/podway/internal/kernel/netns"
	"golang.org/x/sys/unix"
)

// maxBatch bounds one transaction. The kernel takes a transaction as one message, so a larger one cannot be atomic.
const maxBatch = 256 << 20

// patience is how long one answer of the kernel may take: a large commit holds a lock that others wait for.
const patience = 60 * time.Second

// Conn talks to the nf_tables of one network namespace. It is not safe for concurrent use.
type Conn struct {
	fd     int
	seq    uint32
	sndbuf int
	recv   []byte
}

// Open opens the door of a namespace; nil is the caller's own.
func Open(ns *netns.NS) (*Conn, error) {
	c := &Conn{recv: make([]byte, 64<<10), seq: 1}
	open := func() (err error) {
		c.fd, err = unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_NETFILTER)
		return err
	}
	err := error(nil)
	if ns == nil {
		err = open()
	} else {
		err = ns.Do(open)
	}
	if err != nil {
		return nil, fmt.Errorf("nft: open: %w", explain(err))
	}
	if err := c.setUp(); err != nil {
		unix.Close(c.fd)
		return nil, fmt.Errorf("nft: open: %w", err)
	}
	return c, nil
}

func (c *Conn) setUp() error {
	if err := unix.Bind(c.fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	tv := unix.NsecToTimeval(int64(patience))
	return unix.SetsockoptTimeval(c.fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv)
}

// Close closes the door; nothing in the kernel changes.
func (c *Conn) Close() error { return unix.Close(c.fd) }

// OpError is an operation that the kernel refused.
type OpError struct {
	Op  Op
	Err error
}

// Error names the operation and the table.
func (e *OpError) Error() string {
	return fmt.Sprintf("nft: table %s %s: %s: %v", e.Op.Table.Family, e.Op.Table.Name, e.Op, e.Err)
}

// Unwrap returns the cause: an errno, or errors.ErrUnsupported.
func (e *OpError) Unwrap() error { return e.Err }

// Apply implements Kernel: one transaction, one acknowledgement, which the kernel sends when the change is in force.
func (c *Conn) Apply(ctx context.Context, ops []Op) error {
	if len(ops) == 0 {
		return nil
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	w := encode(ops, c.seq)
	c.seq += uint32(len(w.of))
	if len(w.b) > maxBatch {
		return fmt.Errorf("nft: apply table %s: transaction of %d MiB", ops[0].Table.Name, len(w.b)>>20)
	}
	if err := c.send(w.b); err != nil {
		return fmt.Errorf("nft: apply table %s: %w", ops[0].Table.Name, err)
	}
	ack := binary.NativeEndian.Uint32(w.b[w.last+8:])
	return c.acknowledged(w, ack)
}

// acknowledged waits for the last operation's answer. After an error the rest of the answers are thrown away.
func (c *Conn) acknowledged(w *batch, ack uint32) error {
	var failed error
	for {
		done := false
		err := c.receive(func(h header, body []byte) error {
			if h.typ != unix.NLMSG_ERROR || h.seq < w.seq || h.seq >= w.seq+uint32(len(w.of)) {
				return nil // an answer to an older question
			}
			errno := -int32(binary.NativeEndian.Uint32(body))
			if errno != 0 && failed == nil {
				failed = w.error(h.seq, unix.Errno(errno))
			}
			done = done || h.seq == ack || failed != nil
			return nil
		})
		switch {
		case err != nil:
			return fmt.Errorf("nft: apply table %s: %w", w.ops[0].Table.Name, err)
		case failed != nil:
			c.drain()
			return failed
		case done:
			return nil
		}
	}
}

func (w *batch) error(seq uint32, errno unix.Errno) error {
	i := w.operation(seq)
	if i < 0 {
		return fmt.Errorf("nft: table %s: commit: %w", w.ops[0].Table.Name, explain(errno))
	}
	return &OpError{Op: w.ops[i], Err: explainOp(w.ops[i], errno)}
}

// send writes one datagram and makes the socket's buffer as large as it needs.
func (c *Conn) send(b []byte) error {
	if want := len(b) + 4096; want > c.sndbuf {
		if err := unix.SetsockoptInt(c.fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, want); err != nil {
			return fmt.Errorf("send buffer of %d bytes: %w", want, explain(err))
		}
		c.sndbuf = want
	}
	for {
		err := unix.Sendto(c.fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

type header struct {
	typ, flags uint16
	seq        uint32
}

// receive reads one datagram and calls f for each message.
func (c *Conn) receive(f func(header, []byte) error) error {
	n, err := c.read(0)
	if err != nil {
		return err
	}
	for b := c.recv[:n]; len(b) >= unix.SizeofNlMsghdr; {
		size := int(binary.NativeEndian.Uint32(b))
		if size < unix.SizeofNlMsghdr || size > len(b) {
			return errors.New("cut off answer")
		}
		h := header{binary.NativeEndian.Uint16(b[4:]), binary.NativeEndian.Uint16(b[6:]), binary.NativeEndian.Uint32(b[8:])}
		if err := f(h, b[unix.SizeofNlMsghdr:size]); err != nil {
			return err
		}
		b = b[min((size+3)&^3, len(b)):]
	}
	return nil
}

func (c *Conn) read(flags int) (int, error) {
	for {
		n, _, err := unix.Recvfrom(c.fd, c.recv, flags)
		if !errors.Is(err, unix.EINTR) {
			if errors.Is(err, unix.EAGAIN) {
				err = fmt.Errorf("no answer within %s: %w", patience, err)
			}
			return n, err
		}
	}
}

func (c *Conn) drain() {
	for {
		if _, _, err := unix.Recvfrom(c.fd, c.recv, unix.MSG_DONTWAIT); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// explain adds the remedy to an errno that says that something is missing.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w (CAP_NET_ADMIN in the namespace is needed, and no other program may own the table)", err)
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EAFNOSUPPORT), errors.Is(err, unix.EOPNOTSUPP):
		return fmt.Errorf("%w: %w: the kernel lacks a part of nf_tables (CONFIG_NF_TABLES, NFT_NAT, NFT_MASQ, NFT_REJECT, NFT_FIB; Linux 5.13 or later)", errors.ErrUnsupported, err)
	}
	return err
}

// explainOp knows that an unknown expression or set type is told as ENOENT or EOPNOTSUPP.
func explainOp(op Op, errno unix.Errno) error {
	switch {
	case errno == unix.ENOENT && op.Kind == AddRules:
		return fmt.Errorf("%w: %w: the kernel lacks an expression of the chain, or a set or chain that it names is gone", errors.ErrUnsupported, errno)
	case errno == unix.ENFILE:
		return fmt.Errorf("%w: %w", ErrFull, errno)
	case errno == unix.ENOENT:
		return fmt.Errorf("%w: %w", ErrNotExist, errno)
	case errno == unix.EEXIST, errno == unix.EBUSY && op.Kind == AddElems:
		return fmt.Errorf("%w: %w", ErrExist, errno)
	}
	return explain(errno)
}
