package corefile

import (
	"net/netip"
	"strconv"
	"strings"

	"github.com/podway/podway/internal/hop/dns/config"
)

// key reads a server block's key: [dns://]ZONE[:PORT].
func (r *reader) key(t token) {
	rest := t.text
	if scheme, after, ok := strings.Cut(rest, "://"); ok {
		rest = after
		if scheme != "dns" {
			r.bad(t.at, "%s: podway serves plain DNS (UDP and TCP) only, not %s", t.text, scheme)
			return
		}
	}
	zone, port := rest, r.o.Port
	if i := strings.LastIndexByte(rest, ':'); i > strings.IndexByte(rest, '/') && (i == strings.IndexByte(rest, ':') || strings.Contains(rest, "/")) {
		n, err := strconv.ParseUint(rest[i+1:], 10, 16)
		if err != nil {
			r.bad(t.at, "%s: %q is no port", t.text, rest[i+1:])
			return
		}
		zone, port = rest[:i], uint16(n)
	}
	if zone == "" {
		zone = "."
	}
	t.text = zone
	for _, z := range r.zones([]token{t}) {
		r.b.Keys = add(r.b.Keys, config.Key{Zone: z, Port: port})
	}
}

// Reverse returns the reverse zones that hold the addresses of a range and no others; a range that is not cut at a whole
// label of its names takes several.
func Reverse(p netip.Prefix) (out []string) {
	p = p.Masked()
	size, end := 8, "in-addr.arpa."
	if p.Addr().Is6() {
		size, end = 4, "ip6.arpa."
	}
	raw := p.Addr().AsSlice()
	labels := (p.Bits() + size - 1) / size
	for i := range 1 << (labels*size - p.Bits()) {
		name := end
		for l := range labels {
			v := int(raw[l*size/8])
			if size == 4 {
				v = v >> (4 * (1 - l%2)) & 0xf
			}
			if l == labels-1 {
				v += i
			}
			base := 10
			if size == 4 {
				base = 16
			}
			name = strconv.FormatInt(int64(v), base) + "." + name
		}
		out = append(out, name)
	}
	return out
}

// ReversePrefix is the range whose reverse zone is given, in lower case with a final dot.
func ReversePrefix(zone string) (netip.Prefix, bool) {
	var raw [16]byte
	var size, base, end = 8, 10, "in-addr.arpa."
	if strings.HasSuffix(zone, "ip6.arpa.") {
		size, base, end = 4, 16, "ip6.arpa."
	}
	front, ok := strings.CutSuffix(zone, end)
	if !ok {
		return netip.Prefix{}, false
	}
	labels := strings.FieldsFunc(front, func(c rune) bool { return c == '.' })
	most := map[int]int{8: 4, 4: 32}[size]
	if len(labels) > most || front != "" && !strings.HasSuffix(front, ".") {
		return netip.Prefix{}, false
	}
	for i := range labels {
		n, err := strconv.ParseUint(labels[len(labels)-1-i], base, size)
		if err != nil {
			return netip.Prefix{}, false
		}
		raw[i*size/8] |= byte(n) << (8 - size - i*size%8)
	}
	addr := netip.AddrFrom16(raw)
	if size == 8 {
		addr = netip.AddrFrom4([4]byte(raw[:4]))
	}
	return netip.PrefixFrom(addr, len(labels)*size), true
}
