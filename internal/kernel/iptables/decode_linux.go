package iptables

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/nft"
)

// errForeign is a rule with something in it that is not known here; the tools themselves know it.
var errForeign = errors.New("iptables: an expression that is not known")

// decoder writes one rule of nf_tables, as the tools of variant nft made it, in the letters of iptables-save. The tools
// themselves would do, but their time grows with the square of the number of chains.
type decoder struct {
	six bool

	src, dst, in, proto string // options that stand first
	matches, end        []byte
	err                 error

	load   loaded // what the last expression put into its register
	number byte   // the protocol
}

// loaded is what is in a register.
type loaded struct {
	what string // "l4proto", "iifname", "mark", "saddr", "daddr", "dport", "sport"
	mask []byte
	size int
}

// rule decodes one rule of a chain.
func (d *decoder) rule(chain string, exprs []nft.RawExpr, note string) (string, error) {
	*d = decoder{six: d.six, matches: d.matches[:0], end: d.end[:0]}
	for i := range exprs {
		d.expr(exprs[i].Name, attrTable(exprs[i].Attrs))
		if d.err != nil {
			return "", fmt.Errorf("%w: %s in chain %s", d.err, exprs[i].Name, chain)
		}
	}
	if note != "" {
		d.matches = append(d.matches, ` -m comment --comment `+quoted(note)...)
	}
	var b strings.Builder
	b.Grow(192)
	for _, part := range []string{"-A ", chain, d.src, d.dst, d.in, d.proto} {
		b.WriteString(part)
	}
	b.Write(d.matches)
	b.Write(d.end)
	b.WriteByte('\n')
	return b.String(), nil
}

// table are the attributes of an expression, by number; none has more.
type table [12][]byte

func attrTable(b []byte) (t table) {
	nft.EachAttr(b, func(n uint16, v []byte) {
		if int(n) < len(t) {
			t[n] = v
		}
	})
	return t
}

func (d *decoder) foreign() { d.err = errForeign }

func (d *decoder) expr(name string, a table) {
	switch name {
	case "counter":
	case "meta":
		d.meta(be32(a[unix.NFTA_META_KEY]), a[unix.NFTA_META_SREG] != nil)
	case "payload":
		d.payload(a)
	case "bitwise":
		d.load.mask = value(a[unix.NFTA_BITWISE_MASK])
	case "cmp":
		d.compare(be32(a[unix.NFTA_CMP_OP]), value(a[unix.NFTA_CMP_DATA]))
	case "match":
		d.match(cstr(a[1]), be32(a[2]), a[3])
	case "target":
		d.target(cstr(a[1]), be32(a[2]), a[3])
	case "immediate":
		d.verdict(attrTable(a[unix.NFTA_IMMEDIATE_DATA])[unix.NFTA_DATA_VERDICT])
	default:
		d.foreign()
	}
}

func (d *decoder) meta(key uint32, set bool) {
	d.load = loaded{}
	switch {
	case set:
		d.foreign()
	case key == unix.NFT_META_L4PROTO:
		d.load.what = "l4proto"
	case key == unix.NFT_META_IIFNAME:
		d.load.what = "iifname"
	case key == unix.NFT_META_MARK:
		d.load.what = "mark"
	default:
		d.foreign()
	}
}

func (d *decoder) payload(a table) {
	base, off, size := be32(a[unix.NFTA_PAYLOAD_BASE]), be32(a[unix.NFTA_PAYLOAD_OFFSET]), be32(a[unix.NFTA_PAYLOAD_LEN])
	d.load = loaded{size: int(size)}
	src, dst := uint32(12), uint32(16)
	if d.six {
		src, dst = 8, 24
	}
	switch {
	case base == unix.NFT_PAYLOAD_NETWORK_HEADER && off == src:
		d.load.what = "saddr"
	case base == unix.NFT_PAYLOAD_NETWORK_HEADER && off == dst:
		d.load.what = "daddr"
	case base == unix.NFT_PAYLOAD_TRANSPORT_HEADER && off == 2 && size == 2:
		d.load.what = "dport"
	default:
		d.foreign()
	}
}

func (d *decoder) compare(op uint32, v []byte) {
	not := ""
	switch op {
	case unix.NFT_CMP_EQ:
	case unix.NFT_CMP_NEQ:
		not = " !"
	default:
		d.foreign()
		return
	}
	switch d.load.what {
	case "l4proto":
		if len(v) < 1 {
			d.foreign()
			return
		}
		d.number = v[0]
		d.proto = not + " -p " + d.protocol()
	case "iifname":
		d.in = not + " -i " + device(v)
	case "saddr":
		d.src = not + " -s " + d.prefix(v)
	case "daddr":
		d.dst = not + " -d " + d.prefix(v)
	case "dport":
		if not != "" || len(v) < 2 {
			d.foreign()
			return
		}
		d.matches = append(append(d.matches, " -m "...), d.protocol()...)
		d.matches = strconv.AppendUint(append(d.matches, " --dport "...), uint64(binary.BigEndian.Uint16(v)), 10)
	case "mark":
		d.marked(not, v)
	default:
		d.foreign()
	}
	d.load = loaded{}
}

func (d *decoder) protocol() string {
	switch d.number {
	case unix.IPPROTO_TCP:
		return "tcp"
	case unix.IPPROTO_UDP:
		return "udp"
	case unix.IPPROTO_SCTP:
		return "sctp"
	}
	d.foreign()
	return ""
}

func (d *decoder) marked(not string, v []byte) {
	mask := uint32(0xffffffff)
	if len(d.load.mask) >= 4 {
		mask = binary.NativeEndian.Uint32(d.load.mask)
	}
	if len(v) < 4 {
		d.foreign()
		return
	}
	d.matches = fmt.Appendf(d.matches, " -m mark%s --mark 0x%x", not, binary.NativeEndian.Uint32(v))
	if mask != 0xffffffff {
		d.matches = fmt.Appendf(d.matches, "/0x%x", mask)
	}
}

// prefix is an address of which only the first bytes, or those in a mask, were compared.
func (d *decoder) prefix(v []byte) string {
	full := 4
	if d.six {
		full = 16
	}
	bits := 8 * d.load.size
	if m := d.load.mask; m != nil {
		bits = ones(m)
	}
	room := make([]byte, full)
	copy(room, v)
	a, _ := netip.AddrFromSlice(room)
	return netip.PrefixFrom(a, bits).String()
}

// ones counts the bits at the beginning of a mask.
func ones(m []byte) (n int) {
	for _, b := range m {
		for ; b&0x80 != 0; b <<= 1 {
			n++
		}
	}
	return n
}

// device is a name with its final zero, or the beginning of one without.
func device(v []byte) string {
	for i, c := range v {
		if c == 0 {
			return string(v[:i])
		}
	}
	return string(v) + "+"
}

func (d *decoder) verdict(b []byte) {
	v := attrTable(b)
	chain := cstr(v[unix.NFTA_VERDICT_CHAIN])
	switch code := int32(be32(v[unix.NFTA_VERDICT_CODE])); code {
	case unix.NFT_JUMP:
		d.jump(chain)
	case unix.NFT_GOTO:
		d.end = append(append(d.end, " -g "...), chain...)
	case unix.NFT_RETURN:
		d.jump("RETURN")
	case 0:
		d.jump("DROP")
	case 1:
		d.jump("ACCEPT")
	default:
		d.foreign()
	}
}

func (d *decoder) jump(target string) { d.end = append(append(d.end, " -j "...), target...) }

func value(b []byte) []byte { return attrTable(b)[unix.NFTA_DATA_VALUE] }

func be32(b []byte) uint32 {
	if len(b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

func cstr(b []byte) string {
	if i := strings.IndexByte(string(b), 0); i >= 0 {
		return string(b[:i])
	}
	return string(b)
}

// quoted is a string as the tools print it: in quotes unless it is one simple word.
func quoted(s string) string {
	const simple = "_-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	if strings.Trim(s, simple) == "" && s != "" {
		return s
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `'`, `\'`).Replace(s) + `"`
}
