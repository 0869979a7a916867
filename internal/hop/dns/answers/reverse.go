package answers

import (
	"net/netip"
)

var (
	arpa4 = []byte("\x07in-addr\x04arpa\x00")
	arpa6 = []byte("\x03ip6\x04arpa\x00")
)

// findReverse looks up a reverse name. A well-formed beginning of an address in one of the ranges exists (as an empty
// non-terminal), so that no resolver concludes from it that nothing is below.
func (v *View) findReverse(q *Query) node {
	size, digits := 0, octet
	front, ok := q.under(arpa4, 2)
	if ok {
		size = 8
	} else if front, ok = q.under(arpa6, 2); ok {
		size, digits = 4, nibble
	} else {
		return node{}
	}
	var raw [16]byte
	used, full := 0, 32/8
	if size == 4 {
		full = 128 / 4
	}
	for used < full && used < front {
		d, ok := digits(q.label(front - 1 - used))
		if !ok {
			break
		}
		raw[used*size/8] |= d << (8 - size - used*size%8)
		used++
	}
	addr := netip.AddrFrom16(raw)
	if size == 8 {
		addr = netip.AddrFrom4([4]byte(raw[:4]))
	}
	return v.reverseNode(addr, used, used == full, front, size)
}

// reverseNode decides about a name whose rightmost used labels spell addr; rest labels stand in front of these.
func (v *View) reverseNode(addr netip.Addr, used int, full bool, front, size int) node {
	n := node{in: Reverse}
	rest := front - used
	for _, p := range v.reverse {
		apex := (p.Bits() + size - 1) / size // the zone is cut at a whole label
		if used >= apex && p.Contains(addr) {
			n.ours, n.apex = true, front-apex
			n.exists = !full && rest == 0
			if used == apex && rest == 0 {
				n.e = v.zone.apex
			}
			break
		}
	}
	if !v.synced && full && rest == 0 && isPrivate(addr) { // it may be a Service's: nobody else can know
		n.ours, n.apex = true, front-used
	}
	if full && rest == 0 {
		if e := v.back(addr); e != nil {
			n.ours, n.exists, n.e = true, true, e
		}
	}
	if !n.ours {
		n.in = Elsewhere
	}
	return n
}

// isPrivate reports whether an address is of a range from which clusters take theirs (RFC 1918, 4193, 6598).
func isPrivate(a netip.Addr) bool { return a.IsPrivate() || shared.Contains(a) }

var shared = netip.MustParsePrefix("100.64.0.0/10")

// back is the entry of an address's reverse name, or nil.
func (v *View) back(addr netip.Addr) *entry {
	var b *backNames
	if v.from != nil {
		b = v.compiledBack(addr)
	} else {
		b = v.addrs.At(addr)
	}
	if b == nil {
		return nil
	}
	return b.entry
}

// octet reads a decimal label of in-addr.arpa.
func octet(label []byte) (byte, bool) {
	if len(label) == 0 || len(label) > 3 || len(label) > 1 && label[0] == '0' {
		return 0, false
	}
	n := 0
	for _, c := range label {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return byte(n), n < 256
}

// nibble reads a hexadecimal label of ip6.arpa, in lower case.
func nibble(label []byte) (byte, bool) {
	switch {
	case len(label) != 1:
		return 0, false
	case '0' <= label[0] && label[0] <= '9':
		return label[0] - '0', true
	case 'a' <= label[0] && label[0] <= 'f':
		return label[0] - 'a' + 10, true
	}
	return 0, false
}
