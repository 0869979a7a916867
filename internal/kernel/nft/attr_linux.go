package nft

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

// buffer collects netlink messages. Attributes are written in place; nested ones are closed by end.
type buffer struct{ b []byte }

func (w *buffer) pad() {
	for len(w.b)%4 != 0 {
		w.b = append(w.b, 0)
	}
}

// message begins a message with its netfilter header and returns where it begins.
func (w *buffer) message(typ, flags uint16, seq uint32, family uint8, resID uint16) int {
	at := len(w.b)
	w.b = binary.NativeEndian.AppendUint32(w.b, 0)
	w.b = binary.NativeEndian.AppendUint16(w.b, typ)
	w.b = binary.NativeEndian.AppendUint16(w.b, unix.NLM_F_REQUEST|flags)
	w.b = binary.NativeEndian.AppendUint32(w.b, seq)
	w.b = append(w.b, 0, 0, 0, 0, family, unix.NFNETLINK_V0, byte(resID>>8), byte(resID))
	return at
}

// done closes a message.
func (w *buffer) done(at int) {
	binary.NativeEndian.PutUint32(w.b[at:], uint32(len(w.b)-at))
}

func (w *buffer) attr(typ uint16, n int) {
	w.b = binary.NativeEndian.AppendUint16(w.b, uint16(unix.SizeofNlAttr+n))
	w.b = binary.NativeEndian.AppendUint16(w.b, typ)
}

func (w *buffer) nest(typ uint16) int {
	at := len(w.b)
	w.attr(typ|unix.NLA_F_NESTED, 0)
	return at
}

func (w *buffer) end(at int) { binary.NativeEndian.PutUint16(w.b[at:], uint16(len(w.b)-at)) }

func (w *buffer) str(typ uint16, s string) {
	w.attr(typ, len(s)+1)
	w.b = append(append(w.b, s...), 0)
	w.pad()
}

func (w *buffer) bytes(typ uint16, s string) {
	w.attr(typ, len(s))
	w.b = append(w.b, s...)
	w.pad()
}

func (w *buffer) u8(typ uint16, v uint8) {
	w.attr(typ, 1)
	w.b = append(w.b, v)
	w.pad()
}

func (w *buffer) u32(typ uint16, v uint32) {
	w.attr(typ, 4)
	w.b = binary.BigEndian.AppendUint32(w.b, v)
}

func (w *buffer) u64(typ uint16, v uint64) {
	w.attr(typ, 8)
	w.b = binary.BigEndian.AppendUint64(w.b, v)
}

// data writes a value as the kernel nests it.
func (w *buffer) data(typ uint16, s string) {
	at := w.nest(typ)
	w.bytes(unix.NFTA_DATA_VALUE, s)
	w.end(at)
}

func (w *buffer) verdict(typ uint16, v Verdict) {
	at := w.nest(typ)
	in := w.nest(unix.NFTA_DATA_VERDICT)
	w.u32(unix.NFTA_VERDICT_CODE, uint32(v.Kind))
	if v.Chain != "" {
		w.str(unix.NFTA_VERDICT_CHAIN, v.Chain)
	}
	w.end(in)
	w.end(at)
}

func (w *buffer) reg(typ uint16, r Reg) { w.u32(typ, unix.NFT_REG32_00+uint32(r)) }

// attrs calls f for each attribute of b.
func attrs(b []byte, f func(typ uint16, v []byte)) {
	for len(b) >= unix.SizeofNlAttr {
		n := int(binary.NativeEndian.Uint16(b))
		if n < unix.SizeofNlAttr || n > len(b) {
			return
		}
		f(binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER), b[unix.SizeofNlAttr:n])
		b = b[min((n+3)&^3, len(b)):]
	}
}

// tree reads the attributes of one level; a repeated one keeps its last value.
func tree(b []byte) map[uint16][]byte {
	m := map[uint16][]byte{}
	attrs(b, func(t uint16, v []byte) { m[t] = v })
	return m
}

func be32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func be64(b []byte) uint64 {
	if len(b) < 8 {
		return 0
	}
	return binary.BigEndian.Uint64(b)
}

func cstr(b []byte) string {
	for i, c := range b {
		if c == 0 {
			return string(b[:i])
		}
	}
	return string(b)
}
