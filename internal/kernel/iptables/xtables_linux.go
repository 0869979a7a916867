package iptables

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
)

// The structures of linux/netfilter/xt_*.h that the kernel keeps for matches and targets, by their offsets.

// fits reports whether a structure is there as a whole.
func (d *decoder) fits(b []byte, size int) bool {
	if len(b) < size {
		d.foreign()
	}
	return len(b) >= size
}

func u16(b []byte, at int) uint16 { return binary.NativeEndian.Uint16(b[at:]) }
func u32(b []byte, at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }

func (d *decoder) match(name string, rev uint32, b []byte) {
	switch name + " " + strconv.Itoa(int(rev)) {
	case "comment 0":
		d.matches = append(append(d.matches, " -m comment --comment "...), quoted(cstr(b))...)
	case "tcp 0", "udp 0":
		d.anyPorts(name, b)
	case "sctp 0":
		d.sctp(b)
	case "statistic 0":
		d.statistic(b)
	case "recent 1":
		d.recent(b)
	case "addrtype 1":
		d.addrtype(b)
	case "conntrack 3":
		d.conntrack(b)
	default:
		d.foreign()
	}
}

// anyPorts is struct xt_tcp or xt_udp: source ports, destination ports, and more that is zero.
func (d *decoder) anyPorts(name string, b []byte) {
	if !d.fits(b, 8) {
		return
	}
	if u16(b, 0) != 0 || u16(b, 2) != 0xffff || strings.Trim(string(b[8:]), "\x00") != "" {
		d.foreign()
		return
	}
	d.ports(name, u16(b, 4), u16(b, 6))
}

func (d *decoder) ports(name string, low, high uint16) {
	d.matches = append(append(d.matches, " -m "...), name...)
	switch {
	case low == 0 && high == 0xffff:
	case low == high:
		d.matches = strconv.AppendUint(append(d.matches, " --dport "...), uint64(low), 10)
	default:
		d.foreign()
	}
}

// sctp is struct xt_sctp; its flags say which parts of it count.
func (d *decoder) sctp(b []byte) {
	const flags, invert, size, destination = 284, 288, 292, 2
	if !d.fits(b, size) {
		return
	}
	switch f := u32(b, flags); {
	case u32(b, invert) != 0 || f&^destination != 0:
		d.foreign()
	case f == 0:
		d.ports("sctp", 0, 0xffff)
	default:
		d.ports("sctp", u16(b, 0), u16(b, 2))
	}
}

// statistic is struct xt_statistic_info: mode, flags, probability.
func (d *decoder) statistic(b []byte) {
	if !d.fits(b, 8) {
		return
	}
	if u16(b, 0) != 0 || u16(b, 2) != 0 {
		d.foreign()
		return
	}
	d.matches = append(d.matches, " -m statistic --mode random --probability "...)
	d.matches = strconv.AppendFloat(d.matches, float64(u32(b, 4))/(1<<31), 'f', 11, 64)
}

// recent is struct xt_recent_mtinfo_v1: seconds, hits, what to do, name, side, mask.
func (d *decoder) recent(b []byte) {
	const what, invert, name, side, mask, size = 8, 9, 10, 210, 212, 228
	const check, set, reap = 1, 2, 32
	if !d.fits(b, size) {
		return
	}
	d.matches = append(d.matches, " -m recent"...)
	switch {
	case u32(b, 4) != 0 || b[invert] != 0 || b[side] != 0:
		d.foreign()
	case b[what]&^reap == check:
		d.matches = fmt.Appendf(d.matches, " --rcheck --seconds %d", u32(b, 0))
	case b[what] == set && u32(b, 0) == 0:
		d.matches = append(d.matches, " --set"...)
	default:
		d.foreign()
	}
	if b[what]&reap != 0 {
		d.matches = append(d.matches, " --reap"...)
	}
	bytes := 4
	if d.six {
		bytes = 16
	}
	m, _ := netip.AddrFromSlice(b[mask : mask+bytes])
	d.matches = fmt.Appendf(d.matches, " --name %s --mask %s --rsource", cstr(b[name:side]), m)
}

// addrtype is struct xt_addrtype_info_v1: types of source and destination as bits, flags.
func (d *decoder) addrtype(b []byte) {
	const local = 1 << 2
	if !d.fits(b, 8) {
		return
	}
	switch {
	case u32(b, 4) != 0:
		d.foreign()
	case u16(b, 0) == local && u16(b, 2) == 0:
		d.matches = append(d.matches, " -m addrtype --src-type LOCAL"...)
	case u16(b, 0) == 0 && u16(b, 2) == local:
		d.matches = append(d.matches, " -m addrtype --dst-type LOCAL"...)
	default:
		d.foreign()
	}
}

// conntrack is struct xt_conntrack_mtinfo3, of which only the states are read here.
func (d *decoder) conntrack(b []byte) {
	const flags, inverted, states, size, state = 146, 148, 150, 154, 1
	if !d.fits(b, size) {
		return
	}
	if u16(b, flags) != state || u16(b, inverted)&^state != 0 {
		d.foreign()
		return
	}
	d.matches = append(d.matches, " -m conntrack"...)
	if u16(b, inverted) != 0 {
		d.matches = append(d.matches, " !"...)
	}
	var names []string
	for _, s := range ctStates {
		if u16(b, states)&s.bit != 0 {
			names = append(names, s.name)
		}
	}
	d.matches = append(append(d.matches, " --ctstate "...), strings.Join(names, ",")...)
}

// ctStates are in the order in which the tools print them.
var ctStates = []struct {
	bit  uint16
	name string
}{{1, "INVALID"}, {1 << 3, "NEW"}, {1 << 2, "RELATED"}, {1 << 1, "ESTABLISHED"}, {1 << 8, "UNTRACKED"}, {1 << 6, "SNAT"}, {1 << 7, "DNAT"}}

func (d *decoder) target(name string, rev uint32, b []byte) {
	switch name + " " + strconv.Itoa(int(rev)) {
	case "DNAT 2":
		d.dnat(b)
	case "MARK 2":
		if d.fits(b, 8) {
			d.end = fmt.Appendf(d.end, " -j MARK --set-xmark 0x%x/0x%x", u32(b, 0), u32(b, 4))
		}
	case "MASQUERADE 0":
		d.masquerade(b)
	case "REJECT 0":
		d.reject(b)
	default:
		d.foreign()
	}
}

// dnat is struct nf_nat_range2: flags, two addresses, two ports in network order.
func (d *decoder) dnat(b []byte) {
	const low, high, lowPort, highPort, size, withAddr, withPort = 4, 20, 36, 38, 40, 1, 2
	if !d.fits(b, size) {
		return
	}
	if u32(b, 0) != withAddr|withPort || string(b[low:high]) != string(b[high:lowPort]) || u16(b, lowPort) != u16(b, highPort) {
		d.foreign()
		return
	}
	bytes := 4
	if d.six {
		bytes = 16
	}
	a, _ := netip.AddrFromSlice(b[low : low+bytes])
	to := netip.AddrPortFrom(a, binary.BigEndian.Uint16(b[lowPort:]))
	d.end = to.AppendTo(append(d.end, " -j DNAT --to-destination "...))
}

// masquerade is struct nf_nat_ipv4_multi_range_compat, or nf_nat_range of IPv6: the flags are fully random alone.
func (d *decoder) masquerade(b []byte) {
	const fullyRandom = 1 << 4
	at := 4
	if d.six {
		at = 0
	}
	if !d.fits(b, at+4) {
		return
	}
	if u32(b, at) != fullyRandom {
		d.foreign()
		return
	}
	d.jump("MASQUERADE --random-fully")
}

// reject is struct ipt_reject_info or ip6t_reject_info: port unreachable.
func (d *decoder) reject(b []byte) {
	if !d.fits(b, 4) {
		return
	}
	switch {
	case !d.six && u32(b, 0) == 3:
		d.jump("REJECT --reject-with icmp-port-unreachable")
	case d.six && u32(b, 0) == 4:
		d.jump("REJECT --reject-with icmp6-port-unreachable")
	default:
		d.foreign()
	}
}
