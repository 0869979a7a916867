package arp

import (
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/podway/podway/internal/kernel/packet"
)

// notOurs are devices that lead to Pods and tunnels, not to the segment where clients are.
var notOurs = []string{"lo", "podway*", "pw*", "veth*", "cni*", "cali*", "cilium*", "lxc*", "flannel*", "docker*", "br-*",
	"virbr*", "tun*", "tap*", "wg*", "vxlan*", "dummy*", "kube-ipvs*", "nodelocaldns"}

// usable returns the devices to answer on: up, Ethernet with an IPv4 subnet, no port of another. With only, their names
// must match one of its patterns (path.Match); without, notOurs are left out.
func usable(all []packet.Interface, only []string) (out []packet.Interface) {
	for _, i := range all {
		named := matches(only, i.Name) || len(only) == 0 && !matches(notOurs, i.Name)
		subnet := slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr().Is4() && p.Bits() < 32 })
		if i.Up && !i.NoARP && !i.Port && i.MAC != (mac{}) && named && (subnet || len(only) > 0) {
			out = append(out, i)
		}
	}
	return out
}

func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok
	})
}

// where returns the devices to announce an address on: those whose subnet it lies in, or all when it lies in none.
func where(a netip.Addr, on []packet.Interface) []packet.Interface {
	var in []packet.Interface
	for _, i := range on {
		if slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Masked().Contains(a) }) {
			in = append(in, i)
		}
	}
	if len(in) == 0 {
		return on
	}
	return in
}

// ownedBy returns the device that has the address itself, so that the kernel answers for it already; "" for none. Dummy
// devices do not count: ipvs needs the addresses of Services on one.
func ownedBy(a netip.Addr, all []packet.Interface) string {
	for _, i := range all {
		if !i.Dummy && slices.ContainsFunc(i.Addrs, func(p netip.Prefix) bool { return p.Addr() == a }) {
			return i.Name
		}
	}
	return ""
}

func names(l []packet.Interface) []string {
	out := make([]string, 0, len(l))
	for _, i := range l {
		out = append(out, i.Name)
	}
	slices.SortFunc(out, strings.Compare)
	return out
}
