package conntrack

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"

	"github.com/mdlayher/netlink"
	"github.com/podway/podway/internal/kernel/netns"
	"golang.org/x/sys/unix"
)

// Numbers of linux/netfilter/nfnetlink_conntrack.h, and of the filter flags that the kernel takes since 5.8.
const (
	msgGet    = unix.NFNL_SUBSYS_CTNETLINK<<8 | 1
	msgDelete = unix.NFNL_SUBSYS_CTNETLINK<<8 | 2

	attrOrig, attrReply, attrStatus, attrID, attrZone, attrFilter = 1, 2, 3, 12, 18, 25
	attrTupleIP, attrTupleProto                                   = 1, 2
	attrV4Src, attrV4Dst, attrV6Src, attrV6Dst                    = 1, 2, 3, 4
	attrProtoNum, attrProtoSrc, attrProtoDst                      = 1, 2, 3

	filterOrig      = 1
	filterByProto   = 1 << 3
	statusSeenReply = 1 << 1
	statusDNAT      = 1 << 5
)

// Conn talks to the connection tracking of one network namespace. It is not safe for concurrent use.
type Conn struct {
	c  *netlink.Conn
	ns *netns.NS // nil = the caller's own
}

// Open opens the door of a namespace; nil is the caller's own.
func Open(ns *netns.NS) (*Conn, error) {
	cfg := &netlink.Config{}
	if ns != nil {
		cfg.NetNS = ns.Fd()
	}
	c, err := netlink.Dial(unix.NETLINK_NETFILTER, cfg)
	if err != nil {
		return nil, fmt.Errorf("conntrack: open: %w", err)
	}
	return &Conn{c: c, ns: ns}, nil
}

// Close closes the door.
func (c *Conn) Close() error { return c.c.Close() }

// List implements Table.
func (c *Conn) List(ctx context.Context, proto uint8) ([]Entry, error) {
	var out []Entry
	for _, family := range []uint8{unix.AF_INET, unix.AF_INET6} {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		es, err := c.list(family, proto)
		if err != nil {
			return nil, fmt.Errorf("conntrack: list: %w", err)
		}
		out = append(out, es...)
	}
	return out, nil
}

func (c *Conn) list(family, proto uint8) ([]Entry, error) {
	msgs, err := c.dump(family, filter(proto))
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EINVAL) { // a kernel that cannot filter lists all
		msgs, err = c.dump(family, nil)
	}
	if err != nil {
		return nil, err
	}
	var out []Entry
	for _, m := range msgs {
		e, err := decode(m.Data)
		if err != nil {
			return nil, err
		}
		if e.Proto == proto {
			out = append(out, e)
		}
	}
	return out, nil
}

func (c *Conn) dump(family uint8, attrs []byte) ([]netlink.Message, error) {
	return c.c.Execute(netlink.Message{
		Header: netlink.Header{Type: msgGet, Flags: netlink.Request | netlink.Dump},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attrs...),
	})
}

// filter asks for the entries of one protocol.
func filter(proto uint8) []byte {
	ae := netlink.NewAttributeEncoder()
	ae.Nested(attrOrig, func(t *netlink.AttributeEncoder) error {
		t.Nested(attrTupleProto, func(p *netlink.AttributeEncoder) error {
			p.Uint8(attrProtoNum, proto)
			return nil
		})
		return nil
	})
	ae.Nested(attrFilter, func(f *netlink.AttributeEncoder) error {
		f.Uint32(filterOrig, filterByProto)
		return nil
	})
	b, err := ae.Encode()
	if err != nil {
		return nil
	}
	return b
}

// Delete implements Table.
func (c *Conn) Delete(ctx context.Context, proto uint8, stale func(Entry) bool) (int, error) {
	es, err := c.List(ctx, proto)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, e := range es {
		if !stale(e) {
			continue
		}
		if err := c.remove(e); err != nil && !errors.Is(err, unix.ENOENT) {
			return n, fmt.Errorf("conntrack: delete %s -> %s: %w", e.Src, e.Dst, err)
		}
		n++
	}
	return n, nil
}

// remove deletes one entry, told by its tuple, zone and id, so that no other that took its place is hit.
func (c *Conn) remove(e Entry) error {
	family := uint8(unix.AF_INET)
	if e.Src.Addr().Is6() {
		family = unix.AF_INET6
	}
	ae := netlink.NewAttributeEncoder()
	ae.ByteOrder = binary.BigEndian
	ae.Nested(attrOrig, func(t *netlink.AttributeEncoder) error {
		t.Nested(attrTupleIP, func(ip *netlink.AttributeEncoder) error {
			src, dst := uint16(attrV4Src), uint16(attrV4Dst)
			if family == unix.AF_INET6 {
				src, dst = attrV6Src, attrV6Dst
			}
			ip.Bytes(src, e.Src.Addr().AsSlice())
			ip.Bytes(dst, e.Dst.Addr().AsSlice())
			return nil
		})
		t.Nested(attrTupleProto, func(p *netlink.AttributeEncoder) error {
			p.Uint8(attrProtoNum, e.Proto)
			p.Uint16(attrProtoSrc, e.Src.Port())
			p.Uint16(attrProtoDst, e.Dst.Port())
			return nil
		})
		return nil
	})
	ae.Uint32(attrID, e.ID)
	if e.Zone != 0 {
		ae.Uint16(attrZone, e.Zone)
	}
	attrs, err := ae.Encode()
	if err != nil {
		return err
	}
	_, err = c.c.Execute(netlink.Message{
		Header: netlink.Header{Type: msgDelete, Flags: netlink.Request | netlink.Acknowledge},
		Data:   append([]byte{family, unix.NFNETLINK_V0, 0, 0}, attrs...),
	})
	return err
}

func decode(b []byte) (Entry, error) {
	var e Entry
	if len(b) < 4 {
		return e, errors.New("cut off entry")
	}
	ad, err := netlink.NewAttributeDecoder(b[4:])
	if err != nil {
		return e, err
	}
	ad.ByteOrder = binary.BigEndian
	for ad.Next() {
		switch ad.Type() {
		case attrOrig:
			ad.Nested(func(d *netlink.AttributeDecoder) error { return tuple(d, &e.Proto, &e.Src, &e.Dst) })
		case attrReply:
			ad.Nested(func(d *netlink.AttributeDecoder) error { return tuple(d, new(uint8), &e.AnswerSrc, &e.AnswerDst) })
		case attrStatus:
			s := ad.Uint32()
			e.SeenAnswer, e.DstTranslated = s&statusSeenReply != 0, s&statusDNAT != 0
		case attrID:
			e.ID = ad.Uint32()
		case attrZone:
			e.Zone = ad.Uint16()
		}
	}
	return e, ad.Err()
}

// tuple reads one direction of an entry.
func tuple(ad *netlink.AttributeDecoder, proto *uint8, src, dst *netip.AddrPort) error {
	var from, to netip.Addr
	var sport, dport uint16
	for ad.Next() {
		switch ad.Type() {
		case attrTupleIP:
			ad.Nested(func(d *netlink.AttributeDecoder) error {
				for d.Next() {
					a, _ := netip.AddrFromSlice(d.Bytes())
					switch d.Type() {
					case attrV4Src, attrV6Src:
						from = a
					case attrV4Dst, attrV6Dst:
						to = a
					}
				}
				return nil
			})
		case attrTupleProto:
			ad.Nested(func(d *netlink.AttributeDecoder) error {
				d.ByteOrder = binary.BigEndian
				for d.Next() {
					switch d.Type() {
					case attrProtoNum:
						*proto = d.Uint8()
					case attrProtoSrc:
						sport = d.Uint16()
					case attrProtoDst:
						dport = d.Uint16()
					}
				}
				return nil
			})
		}
	}
	*src, *dst = netip.AddrPortFrom(from, sport), netip.AddrPortFrom(to, dport)
	return nil
}
