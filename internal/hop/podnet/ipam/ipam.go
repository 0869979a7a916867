// Package ipam gives Pods their addresses and remembers whose each one is: a folder with one file per address, in use by
// the CNI plugin's short-lived processes side by side. It owns that folder and touches no network.
//
// A reservation is written to the side and then linked to its name, so that a file with an address for a name is always
// whole, at whatever point a process is killed. A kernel lock, which dies with its holder, keeps writers apart.
package ipam

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"
)

// ErrFull says that a range has no free address; flow code PW-5005.
var ErrFull = errors.New("no free address")

// Reservation is the addresses of one interface of one Pod.
type Reservation struct {
	Container string       `json:"container"` // the sandbox's id
	IfName    string       `json:"ifname"`    // in the Pod, eth0
	Network   string       `json:"network"`   // the CNI network's name
	Netns     string       `json:"netns"`     // path of the Pod's network namespace
	Veth      string       `json:"veth"`      // the host's end
	Namespace string       `json:"namespace,omitempty"`
	Pod       string       `json:"pod,omitempty"`
	UID       string       `json:"uid,omitempty"`
	Ports     []Port       `json:"ports,omitempty"`
	Since     time.Time    `json:"since,omitzero"`
	Addrs     []netip.Addr `json:"-"` // the files' names
}

// Port is a port of the node that leads to the Pod: a container's hostPort.
type Port struct {
	Proto    string     `json:"proto"`           // tcp, udp or sctp
	HostIP   netip.Addr `json:"hostIP,omitzero"` // none: all addresses of the node
	HostPort uint16     `json:"hostPort"`
	Port     uint16     `json:"port"` // the Pod's
}

// Is reports whether the reservation is that of an interface of a container.
func (r Reservation) Is(container, ifname string) bool {
	return r.Container == container && r.IfName == ifname
}

// Gateway is the first address of a range: the host's side of every Pod's link. It is never given to a Pod.
func Gateway(p netip.Prefix) netip.Addr { return p.Masked().Addr().Next() }

// next returns the address of p that follows after and is not taken, going round once. The first two addresses and
// IPv4's last are never given.
func next(p netip.Prefix, after netip.Addr, taken map[netip.Addr]bool) (netip.Addr, error) {
	p = p.Masked()
	first, end := Gateway(p).Next(), last(p)
	if !p.Contains(first) || first.Compare(end) > 0 {
		return netip.Addr{}, fmt.Errorf("ipam: range %s is too small for Pods: %w", p, ErrFull)
	}
	if !p.Contains(after) || after.Compare(end) >= 0 || after.Compare(first) < 0 {
		after = first.Prev()
	}
	start := after.Next()
	for a := start; ; {
		if !taken[a] {
			return a, nil
		}
		if a = a.Next(); a.Compare(end) > 0 || !a.IsValid() {
			a = first
		}
		if a == start {
			return netip.Addr{}, fmt.Errorf("ipam: all addresses of %s are taken: %w", p, ErrFull)
		}
	}
}

// last is the last address that a Pod may have.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 1 << (7 - i%8)
	}
	a, _ := netip.AddrFromSlice(b)
	if a.Is4() {
		return a.Prev() // a broadcast address to programs that derive one
	}
	return a
}

func sorted(all []Reservation) []Reservation {
	for _, r := range all {
		slices.SortFunc(r.Addrs, netip.Addr.Compare)
	}
	slices.SortFunc(all, func(a, b Reservation) int { return cmp.Or(slices.CompareFunc(a.Addrs, b.Addrs, netip.Addr.Compare)) })
	return all
}
