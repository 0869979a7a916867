package socket

import (
	"net"
	"net/netip"
	"time"
)

// Batch receives the datagrams of one socket many at a time and sends as many answers with one system call. It is for one
// goroutine and allocates nothing once it is made.
type Batch interface {
	// Receive waits for a datagram, takes those that are there, and returns how many. It forgets those before.
	Receive() (int, error)
	// Message is datagram i, valid until the next Receive.
	Message(i int) []byte
	// IsV6 reports whether datagram i came by IPv6.
	IsV6(i int) bool
	// Peer is who sent datagram i, and the control message with which an answer leaves from the address that was asked;
	// both are the caller's to keep.
	Peer(i int) (from netip.AddrPort, control []byte)
	// Room is an empty slice to append the answer of datagram i to.
	Room(i int) []byte
	// Answer puts b, which must stay as it is until Send, in the queue as the answer to datagram i. One for each datagram.
	Answer(i int, b []byte)
	// Send sends what is queued. An answer that the kernel refuses is left out, and the last such error returned.
	Send() error
}

// plain is a Batch of one, with what package net offers everywhere.
type plain struct {
	c       *net.UDPConn
	in, out []byte
	oob     []byte
	n       int
	control []byte
	from    netip.AddrPort
	answer  []byte
}

// NewPlain is a Batch that takes one datagram at a time, on any system.
func NewPlain(c *net.UDPConn, question, answer int) Batch {
	return &plain{c: c, in: make([]byte, question), out: make([]byte, 0, answer), oob: make([]byte, OOBSize)}
}

func (p *plain) Receive() (int, error) {
	n, m, _, from, err := p.c.ReadMsgUDPAddrPort(p.in, p.oob)
	if err != nil {
		return 0, err
	}
	p.n, p.from, p.control, p.answer = n, from, Reply(p.oob[:m]), nil
	return 1, nil
}

func (p *plain) Message(int) []byte { return p.in[:p.n] }

func (p *plain) IsV6(int) bool { return !p.from.Addr().Unmap().Is4() }

func (p *plain) Peer(int) (netip.AddrPort, []byte) {
	return p.from, append([]byte(nil), p.control...)
}

func (p *plain) Room(int) []byte { return p.out }

func (p *plain) Answer(_ int, b []byte) { p.answer = b }

func (p *plain) Send() error {
	if p.answer == nil {
		return nil
	}
	_, _, err := p.c.WriteMsgUDPAddrPort(p.answer, p.control, p.from)
	p.answer = nil
	return err
}

// Pause waits after an error of Receive that does not end the socket: an error of one datagram, or of the machine. A loop
// must never spin on it.
func Pause() { time.Sleep(time.Millisecond) }
