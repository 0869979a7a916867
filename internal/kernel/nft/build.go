package nft

import (
	"encoding/binary"
	"net/netip"
)

// Short ways to write common expressions. Each returns one Expr, or the list of them that belongs together.

// SrcAddr loads the source address of the family.
func SrcAddr(f Family, dst Reg) Payload { return addrAt(f, 12, 8, dst) }

// DstAddr loads the destination address of the family.
func DstAddr(f Family, dst Reg) Payload { return addrAt(f, 16, 24, dst) }

func addrAt(f Family, v4, v6 uint8, dst Reg) Payload {
	if f == IPv6 {
		return Payload{Base: Network, Offset: v6, Len: 16, Dst: dst}
	}
	return Payload{Base: Network, Offset: v4, Len: 4, Dst: dst}
}

// SrcPort loads the source port.
func SrcPort(dst Reg) Payload { return Payload{Base: Transport, Offset: 0, Len: 2, Dst: dst} }

// DstPort loads the destination port.
func DstPort(dst Reg) Payload { return Payload{Base: Transport, Offset: 2, Len: 2, Dst: dst} }

// L4Proto loads the transport protocol.
func L4Proto(dst Reg) Meta { return Meta{Key: MetaL4Proto, Dst: dst} }

// InSet goes on if the key at src is in the set.
func InSet(set string, src Reg) Lookup { return Lookup{Set: set, Src: src} }

// NotInSet goes on if the key at src is not in the set.
func NotInSet(set string, src Reg) Lookup { return Lookup{Set: set, Src: src, Invert: true} }

// MapTo loads what the map has for the key at src.
func MapTo(set string, src, dst Reg) Lookup { return Lookup{Set: set, Src: src, Map: true, Dst: dst} }

// VMap carries out the verdict that the map has for the key at src.
func VMap(set string, src Reg) Lookup {
	return Lookup{Set: set, Src: src, Map: true, Verdicts: true}
}

// Number turns what a map loaded at from, one register, into a number at each of to, by way of the packet's mark, which it
// puts back from save. Nothing needs this but the nft command: until version 1.1 it does not know how wide a map's data
// is, and aborts, for the whole ruleset, when it lists a rule in which that is part of a key. The mark's width it knows.
func Number(from, save Reg, to ...Reg) []Expr {
	out := []Expr{Meta{Key: MetaMark, Dst: save}, MetaSet{Key: MetaMark, Src: from}}
	for _, r := range to {
		out = append(out, Meta{Key: MetaMark, Dst: r})
	}
	return append(out, MetaSet{Key: MetaMark, Src: save})
}

// To is a verdict that goes to a chain and does not come back.
func To(chain string) Verdict { return Verdict{Kind: Goto, Chain: chain} }

// SrcIn goes on if the source address is in the prefix, DstIn if the destination is; register 0 is used.
func SrcIn(p netip.Prefix) []Expr { return in(SrcAddr, p) }

// DstIn goes on if the destination address is in the prefix; register 0 is used.
func DstIn(p netip.Prefix) []Expr { return in(DstAddr, p) }

func in(load func(Family, Reg) Payload, p netip.Prefix) []Expr {
	f, p := IPv4, p.Masked()
	if p.Addr().Is6() {
		f = IPv6
	}
	want := string(p.Addr().AsSlice())
	out := []Expr{load(f, 0)}
	if p.Bits() < p.Addr().BitLen() {
		mask := make([]byte, len(want))
		for i := range p.Bits() {
			mask[i/8] |= 0x80 >> (i % 8)
		}
		out = append(out, Bitwise{Mask: string(mask), Xor: string(make([]byte, len(want)))})
	}
	return append(out, Cmp{Op: Eq, Data: want})
}

// IsL4Proto goes on if the transport protocol is p; register 0 is used.
func IsL4Proto(p uint8) []Expr { return []Expr{L4Proto(0), Cmp{Op: Eq, Data: string([]byte{p})}} }

// FromLocal goes on if the source address is one of the host's own, ToLocal if the destination is; register 0 is used.
func FromLocal() []Expr { return fibLocal(true) }

// ToLocal goes on if the destination address is one of the host's own; register 0 is used.
func ToLocal() []Expr { return fibLocal(false) }

func fibLocal(source bool) []Expr {
	return []Expr{Fib{Source: source}, Cmp{Op: Eq, Data: host32(AddrTypeLocal)}}
}

// HasBits goes on if any of the bits (in the host's byte order) is set in what load loads; register 0 is used.
func HasBits(load Expr, bits uint32) []Expr {
	return []Expr{load, Bitwise{Mask: host32(bits), Xor: host32(0)}, Cmp{Op: Neq, Data: host32(0)}}
}

// Translated goes on if the connection's destination was translated; register 0 is used.
func Translated() []Expr { return HasBits(Ct{Key: CtStatus}, StatusDNAT) }

// NotTranslated goes on if the connection's destination was not translated; register 0 is used.
func NotTranslated() []Expr {
	return append(HasBits(Ct{Key: CtStatus}, StatusDNAT)[:2], Cmp{Op: Eq, Data: host32(0)})
}

// IsNew goes on if the packet begins a connection; register 0 is used.
func IsNew() []Expr { return HasBits(Ct{Key: CtState}, StateNew) }

// OIF goes on if the packet leaves by the device, or with not if it leaves by another; register 0 is used.
func OIF(name string, not bool) []Expr { return device(MetaOIFName, name, not) }

// IIF goes on if the packet came in by the device, or with not if it came by another; register 0 is used.
func IIF(name string, not bool) []Expr { return device(MetaIIFName, name, not) }

// IIFBegins goes on if the name of the device that the packet came in by begins so; register 0 is used.
func IIFBegins(name string) []Expr { return []Expr{Meta{Key: MetaIIFName}, Cmp{Op: Eq, Data: name}} }

func device(k MetaKey, name string, not bool) []Expr {
	op := Eq
	if not {
		op = Neq
	}
	b := make([]byte, IfName.Len())
	copy(b, name)
	return []Expr{Meta{Key: k}, Cmp{Op: op, Data: string(b)}}
}

// RejectRules answer a TCP packet with a reset and any other with "port unreachable".
func RejectRules(f Family) []Rule {
	code := PortUnreachable4
	if f == IPv6 {
		code = PortUnreachable6
	}
	return []Rule{R(IsL4Proto(TCP), Reject{TCPReset: true}), R(Reject{Code: code})}
}

func host32(n uint32) string { return string(binary.NativeEndian.AppendUint32(nil, n)) }
