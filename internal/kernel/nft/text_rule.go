package nft

import (
	"fmt"
	"strconv"
	"strings"
)

// value is what a register holds, in words, and how a constant compared with it is written.
type value struct {
	text   string
	regs   int
	format func(string) string
}

// printer writes a rule by following what its expressions put into the registers.
type printer struct {
	table *Table
	regs  map[Reg]value
	out   []string
}

// Text writes the rule in nft's syntax. The table tells how wide the keys of its sets are.
func (r Rule) Text(t *Table) string {
	p := printer{table: t, regs: map[Reg]value{}}
	for _, e := range r.Exprs {
		p.expr(e)
	}
	if r.Comment != "" {
		p.out = append(p.out, fmt.Sprintf("comment %q", r.Comment))
	}
	return strings.Join(p.out, " ")
}

func (p *printer) say(format string, a ...any) { p.out = append(p.out, fmt.Sprintf(format, a...)) }

func (p *printer) load(dst Reg, text string, length int, format func(string) string) {
	p.regs[dst] = value{text, (length + 3) / 4, format}
}

// read joins what stands in n registers from r on.
func (p *printer) read(r Reg, n int) string {
	var parts []string
	for n > 0 {
		v, ok := p.regs[r]
		if !ok {
			v = value{text: fmt.Sprintf("reg%d", r), regs: 1}
		}
		parts = append(parts, v.text)
		r, n = r+Reg(v.regs), n-v.regs
	}
	return strings.Join(parts, " . ")
}

func (p *printer) keyRegs(set string) int {
	if s := p.table.Sets[set]; s != nil {
		return size(s.Key) / 4
	}
	return 1
}

func (p *printer) dataRegs(set string) int {
	if s := p.table.Sets[set]; s != nil && len(s.Data) > 0 {
		return size(s.Data) / 4
	}
	return 1
}

func (p *printer) expr(e Expr) {
	switch e := e.(type) {
	case Meta:
		p.meta(e)
	case Payload:
		p.payload(e)
	case Ct:
		p.ct(e)
	case Fib:
		p.load(e.Dst, "fib "+side(e.Source)+" type", 4, addrType)
	case Numgen:
		p.numgen(e)
	case Hash:
		p.hash(e)
	case Immediate:
		p.load(e.Dst, formatNumber(e.Data), len(e.Data), formatNumber)
	case Bitwise:
		p.bitwise(e)
	case Cmp:
		v := p.regs[e.Src]
		if v.format == nil {
			v = value{text: fmt.Sprintf("reg%d", e.Src), format: formatNumber}
		}
		p.say("%s %s%s", v.text, []string{"", "!= ", "< ", "<= ", "> ", ">= "}[min(int(e.Op), 5)], v.format(e.Data))
	case Lookup:
		p.lookup(e)
	default:
		p.action(e)
	}
}

func (p *printer) action(e Expr) {
	switch e := e.(type) {
	case MetaSet:
		p.say("meta mark set %s", p.read(e.Src, 1))
	case Verdict:
		p.say("%s", e)
	case NAT:
		p.nat(e)
	case Masquerade:
		p.say("masquerade")
		if e.FullyRandom {
			p.say("fully-random")
		}
	case Reject:
		if e.TCPReset {
			p.say("reject with tcp reset")
		} else {
			p.say("reject with icmp code %d", e.Code)
		}
	case Dynset:
		p.dynset(e)
	case Counter:
		p.say("counter")
	case Unknown:
		p.say("%s 0x%x", e.Name, e.Data)
	}
}

func (p *printer) meta(e Meta) {
	switch e.Key {
	case MetaL4Proto:
		p.load(e.Dst, "meta l4proto", 1, Proto.format)
	case MetaNFProto:
		p.load(e.Dst, "meta nfproto", 1, func(s string) string { return map[string]string{"\x02": "ipv4", "\x0a": "ipv6"}[s] })
	case MetaMark:
		p.load(e.Dst, "meta mark", 4, formatNumber)
	case MetaIIFName:
		p.load(e.Dst, "iifname", 16, IfName.format)
	case MetaOIFName:
		p.load(e.Dst, "oifname", 16, IfName.format)
	default:
		p.load(e.Dst, "meta "+strconv.Itoa(int(e.Key)), 4, formatNumber)
	}
}

func (p *printer) payload(e Payload) {
	e2 := e
	e2.Dst = 0
	known := map[Payload]struct {
		text string
		typ  Type
	}{
		SrcAddr(IPv4, 0): {"ip saddr", IPv4Addr}, DstAddr(IPv4, 0): {"ip daddr", IPv4Addr},
		SrcAddr(IPv6, 0): {"ip6 saddr", IPv6Addr}, DstAddr(IPv6, 0): {"ip6 daddr", IPv6Addr},
		SrcPort(0): {"th sport", Service}, DstPort(0): {"th dport", Service},
	}
	if k, ok := known[e2]; ok {
		p.load(e.Dst, k.text, int(e.Len), k.typ.format)
		return
	}
	base := map[PayloadBase]string{Network: "nh", Transport: "th"}[e.Base]
	p.load(e.Dst, fmt.Sprintf("@%s,%d,%d", base, int(e.Offset)*8, int(e.Len)*8), int(e.Len), formatNumber)
}

func (p *printer) ct(e Ct) {
	dir := ""
	if e.Original {
		dir = "original "
	}
	switch e.Key {
	case CtState:
		p.load(e.Dst, "ct state", 4, formatNumber)
	case CtStatus:
		p.load(e.Dst, "ct status", 4, formatNumber)
	case CtMark:
		p.load(e.Dst, "ct mark", 4, formatNumber)
	case CtDstIP:
		p.load(e.Dst, "ct "+dir+"ip daddr", 4, IPv4Addr.format)
	case CtDstIP6:
		p.load(e.Dst, "ct "+dir+"ip6 daddr", 16, IPv6Addr.format)
	case CtProtoDst:
		p.load(e.Dst, "ct "+dir+"proto-dst", 2, Service.format)
	default:
		p.load(e.Dst, fmt.Sprintf("ct %s%d", dir, e.Key), 4, formatNumber)
	}
}

func (p *printer) numgen(e Numgen) {
	how := "random"
	if e.Incremental {
		how = "inc"
	}
	text := fmt.Sprintf("numgen %s mod %d", how, e.Mod)
	if e.Offset > 0 {
		text += fmt.Sprintf(" offset %d", e.Offset)
	}
	p.load(e.Dst, text, 4, formatNumber)
}

func (p *printer) hash(e Hash) {
	text := fmt.Sprintf("jhash %s mod %d seed 0x%x", p.read(e.Src, (int(e.Len)+3)/4), e.Mod, e.Seed)
	if e.Offset > 0 {
		text += fmt.Sprintf(" offset %d", e.Offset)
	}
	p.load(e.Dst, text, 4, formatNumber)
}

func (p *printer) bitwise(e Bitwise) {
	v := p.regs[e.Src]
	if v.format == nil {
		v = value{text: fmt.Sprintf("reg%d", e.Src), format: formatNumber}
	}
	text := v.text
	if strings.Trim(e.Mask, "\xff") != "" {
		text += " & " + v.format(e.Mask)
	}
	if strings.Trim(e.Xor, "\x00") != "" {
		text += " ^ " + v.format(e.Xor)
	}
	p.load(e.Dst, text, len(e.Mask), v.format)
}

func (p *printer) lookup(e Lookup) {
	key := p.read(e.Src, p.keyRegs(e.Set))
	switch {
	case e.Verdicts:
		p.say("%s vmap @%s", key, e.Set)
	case e.Map:
		n := p.dataRegs(e.Set)
		for i := range Reg(n) {
			delete(p.regs, e.Dst+i)
		}
		p.load(e.Dst, key+" map @"+e.Set, n*4, formatNumber)
	case e.Invert:
		p.say("%s != @%s", key, e.Set)
	default:
		p.say("%s @%s", key, e.Set)
	}
}

func (p *printer) nat(e NAT) {
	kind, n := "dnat", 1
	if e.Source {
		kind = "snat"
	}
	if e.Family == IPv6 {
		n = 4
	}
	to := p.read(e.AddrReg, n)
	if v := p.regs[e.AddrReg]; e.HasPort && (v.regs <= n || e.PortReg != e.AddrReg+Reg(n)) {
		to += " : " + p.read(e.PortReg, 1)
	}
	p.say("%s %s to %s", kind, e.Family, to)
}

func (p *printer) dynset(e Dynset) {
	op := []string{"add", "update", "delete"}[min(e.Op, DynDelete)]
	elem := p.read(e.Key, p.keyRegs(e.Set))
	if e.Timeout > 0 {
		elem += " timeout " + seconds(e.Timeout)
	}
	if e.Map && e.Op != DynDelete {
		elem += " : " + p.read(e.Data, p.dataRegs(e.Set))
	}
	p.say("%s @%s { %s }", op, e.Set, elem)
}

func side(source bool) string {
	if source {
		return "saddr"
	}
	return "daddr"
}

func addrType(s string) string {
	if len(s) == 4 {
		if name, ok := map[uint32]string{1: "unicast", 2: "local", 3: "broadcast", 5: "multicast"}[MarkOf(s)]; ok {
			return name
		}
	}
	return formatNumber(s)
}
