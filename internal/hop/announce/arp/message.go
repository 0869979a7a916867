package arp

import (
	"encoding/binary"
	"net/netip"
)

// mac is an Ethernet address.
type mac = [6]byte

const (
	opRequest = 1
	opReply   = 2

	messageLen = 28
)

// header is hardware type Ethernet, protocol IPv4, and the lengths of both addresses.
var header = [6]byte{0, 1, 8, 0, 6, 4}

// message is an ARP packet for IPv4 over Ethernet.
type message struct {
	op        uint16
	senderMAC mac
	sender    netip.Addr
	targetMAC mac
	target    netip.Addr
}

// parse reads a packet; ok is false for anything but a request or reply of IPv4 over Ethernet.
func parse(b []byte) (m message, ok bool) {
	if len(b) < messageLen || [6]byte(b) != header {
		return m, false
	}
	m.op = binary.BigEndian.Uint16(b[6:])
	m.senderMAC, m.sender = mac(b[8:]), netip.AddrFrom4([4]byte(b[14:]))
	m.targetMAC, m.target = mac(b[18:]), netip.AddrFrom4([4]byte(b[24:]))
	return m, m.op == opRequest || m.op == opReply
}

func (m message) bytes() []byte {
	b := make([]byte, 0, messageLen)
	b = append(b, header[:]...)
	b = binary.BigEndian.AppendUint16(b, m.op)
	b = append(b, m.senderMAC[:]...)
	b = append(b, m.sender.AsSlice()...)
	b = append(b, m.targetMAC[:]...)
	return append(b, m.target.AsSlice()...)
}

// answer is the reply of a station with the address me to a request.
func (m message) answer(me mac) message {
	return message{op: opReply, senderMAC: me, sender: m.target, targetMAC: m.senderMAC, target: m.sender}
}

// gratuitous returns the two forms in which stations expect to be told: as a request (RFC 5227 announcement) and as a
// reply.
func gratuitous(a netip.Addr, me mac) [2]message {
	return [2]message{
		{op: opRequest, senderMAC: me, sender: a, target: a},
		{op: opReply, senderMAC: me, sender: a, targetMAC: me, target: a},
	}
}
