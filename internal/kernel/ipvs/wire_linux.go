package ipvs

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Numbers of linux/ip_vs.h.
const (
	version = 1

	cmdNewService, cmdSetService, cmdDelService, cmdGetService = 1, 2, 3, 4
	cmdNewDest, cmdSetDest, cmdDelDest, cmdGetDest             = 5, 6, 7, 8
	cmdSetConfig, cmdGetConfig                                 = 12, 13

	attrService, attrDest                        = 1, 2
	attrTimeoutTCP, attrTimeoutFin, attrTimeoutU = 4, 5, 6

	svcAF, svcProtocol, svcAddr, svcPort, svcFwmark       = 1, 2, 3, 4, 5
	svcScheduler, svcFlags, svcTimeout, svcNetmask        = 6, 7, 8, 9
	dstAddr, dstPort, dstMethod, dstWeight                = 1, 2, 3, 4
	dstUpper, dstLower, dstActive, dstInactive, dstFamily = 5, 6, 7, 8, 11

	flagPersistent, flagFallback = 1, 8
	methodMask, methodMasq       = 7, 0
)

func (o Op) command() uint8 {
	return [...]uint8{AddServer: cmdNewService, SetServer: cmdSetService, DelServer: cmdDelService,
		AddDest: cmdNewDest, SetDest: cmdSetDest, DelDest: cmdDelDest}[o.Kind]
}

func encodeKey(k Key) ([]byte, error) {
	ae := netlink.NewAttributeEncoder()
	ae.Nested(attrService, func(s *netlink.AttributeEncoder) error {
		putKey(s, k)
		return nil
	})
	return ae.Encode()
}

func putKey(s *netlink.AttributeEncoder, k Key) {
	s.Uint16(svcAF, family(k.Addr.Addr()))
	s.Uint16(svcProtocol, uint16(k.Proto))
	s.Bytes(svcAddr, wide(k.Addr.Addr()))
	s.Bytes(svcPort, binary.BigEndian.AppendUint16(nil, k.Addr.Port()))
}

func family(a netip.Addr) uint16 {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

// wide is an address in the kernel's union of both families.
func wide(a netip.Addr) []byte {
	b := make([]byte, 16)
	copy(b, a.AsSlice())
	return b
}

// encode writes the attributes of an operation on a server or destination. The kernel wants all fields of what it makes.
func encode(o Op) ([]byte, error) {
	ae := netlink.NewAttributeEncoder()
	ae.Nested(attrService, func(s *netlink.AttributeEncoder) error {
		putKey(s, o.Server.Key)
		if o.Kind == AddServer || o.Kind == SetServer {
			putServer(s, o.Server)
		}
		return nil
	})
	if o.Kind >= AddDest {
		ae.Nested(attrDest, func(d *netlink.AttributeEncoder) error {
			d.Uint16(dstFamily, family(o.To.Addr()))
			d.Bytes(dstAddr, wide(o.To.Addr()))
			d.Bytes(dstPort, binary.BigEndian.AppendUint16(nil, o.To.Port()))
			if o.Kind != DelDest {
				d.Uint32(dstMethod, methodMasq)
				d.Uint32(dstWeight, o.Weight)
				d.Uint32(dstUpper, 0)
				d.Uint32(dstLower, 0)
			}
			return nil
		})
	}
	return ae.Encode()
}

func putServer(s *netlink.AttributeEncoder, srv *Server) {
	flags := uint32(0)
	if srv.Persistence > 0 {
		flags |= flagPersistent
	}
	if srv.Fallback {
		flags |= flagFallback
	}
	s.String(svcScheduler, srv.Scheduler)
	s.Bytes(svcFlags, binary.NativeEndian.AppendUint32(binary.NativeEndian.AppendUint32(nil, flags), flagPersistent|flagFallback))
	s.Uint32(svcTimeout, uint32(srv.Persistence/time.Second))
	s.Uint32(svcNetmask, netmask(srv.Addr.Addr())) // of a client that persistence knows: single addresses
}

// netmask is all ones: as a mask for IPv4, as a length for IPv6.
func netmask(a netip.Addr) uint32 {
	if a.Is4() {
		return ^uint32(0)
	}
	return 128
}

// decodeServer returns nil for a server that is known by a mark.
func decodeServer(m netlink.Message) (*Server, error) {
	ad, err := attributes(m)
	if err != nil {
		return nil, err
	}
	s := &Server{}
	marked := false
	for ad.Next() {
		if ad.Type() == attrService {
			ad.Nested(func(d *netlink.AttributeDecoder) error {
				marked = s.decode(d)
				return nil
			})
		}
	}
	if err := ad.Err(); err != nil || marked {
		return nil, err
	}
	if !s.Addr.Addr().IsValid() {
		return nil, errors.New("a server without an address")
	}
	return s, nil
}

func (s *Server) decode(d *netlink.AttributeDecoder) (marked bool) {
	var addr []byte
	var port uint16
	var is4, persistent bool
	for d.Next() {
		switch d.Type() {
		case svcAF:
			is4 = d.Uint16() == unix.AF_INET
		case svcProtocol:
			s.Proto = uint8(d.Uint16())
		case svcAddr:
			addr = d.Bytes()
		case svcPort:
			port = bePort(d.Bytes())
		case svcFwmark:
			marked = d.Uint32() != 0
		case svcScheduler:
			s.Scheduler = d.String()
		case svcFlags:
			if b := d.Bytes(); len(b) >= 4 {
				f := binary.NativeEndian.Uint32(b)
				persistent, s.Fallback = f&flagPersistent != 0, f&flagFallback != 0
			}
		case svcTimeout:
			s.Persistence = time.Duration(d.Uint32()) * time.Second
		}
	}
	if !persistent {
		s.Persistence = 0
	}
	s.Addr = addrPort(addr, port, is4)
	return marked
}

func bePort(b []byte) uint16 {
	if len(b) < 2 {
		return 0
	}
	return binary.BigEndian.Uint16(b)
}

func addrPort(b []byte, port uint16, is4 bool) netip.AddrPort {
	if is4 && len(b) >= 4 {
		b = b[:4]
	}
	a, _ := netip.AddrFromSlice(b) // a wrong length is the zero address, which the caller refuses
	return netip.AddrPortFrom(a, port)
}

func decodeDest(m netlink.Message, is4 bool) (netip.AddrPort, Dest, error) {
	var out Dest
	var addr []byte
	var port uint16
	ad, err := attributes(m)
	if err != nil {
		return netip.AddrPort{}, out, err
	}
	for ad.Next() {
		if ad.Type() != attrDest {
			continue
		}
		ad.Nested(func(d *netlink.AttributeDecoder) error {
			for d.Next() {
				switch d.Type() {
				case dstFamily:
					is4 = d.Uint16() == unix.AF_INET
				case dstAddr:
					addr = d.Bytes()
				case dstPort:
					port = bePort(d.Bytes())
				case dstMethod:
					out.Foreign = out.Foreign || d.Uint32()&methodMask != methodMasq
				case dstUpper, dstLower:
					out.Foreign = out.Foreign || d.Uint32() != 0
				case dstWeight:
					out.Weight = d.Uint32()
				case dstActive:
					out.Active = d.Uint32()
				case dstInactive:
					out.Inactive = d.Uint32()
				}
			}
			return nil
		})
	}
	return addrPort(addr, port, is4), out, ad.Err()
}

// SetTimeouts implements Kernel.
func (c *Conn) SetTimeouts(_ context.Context, t Timeouts) error {
	if t == (Timeouts{}) {
		return nil
	}
	msgs, err := c.genl.Execute(message(c.family, netlink.Request, cmdGetConfig, version, nil))
	if err != nil || len(msgs) == 0 {
		return fmt.Errorf("ipvs: get timeouts: %w", err)
	}
	ad, err := attributes(msgs[0])
	if err != nil {
		return fmt.Errorf("ipvs: get timeouts: %w", err)
	}
	have := map[uint16]uint32{}
	for ad.Next() {
		if ty := ad.Type(); ty >= attrTimeoutTCP && ty <= attrTimeoutU {
			have[ty] = ad.Uint32()
		}
	}
	ae := netlink.NewAttributeEncoder()
	differs := false
	for ty, want := range map[uint16]time.Duration{attrTimeoutTCP: t.TCP, attrTimeoutFin: t.TCPFin, attrTimeoutU: t.UDP} {
		seconds := have[ty]
		if want > 0 {
			seconds = uint32(max(want/time.Second, 1))
		}
		differs = differs || seconds != have[ty]
		ae.Uint32(ty, seconds)
	}
	if !differs {
		return nil
	}
	b, err := ae.Encode()
	if err != nil {
		return err
	}
	if _, err := c.genl.Execute(message(c.family, netlink.Request|netlink.Acknowledge, cmdSetConfig, version, b)); err != nil {
		return fmt.Errorf("ipvs: set timeouts: %w", err)
	}
	return nil
}
