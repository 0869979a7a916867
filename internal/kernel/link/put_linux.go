package link

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// Put makes or mends a tunnel device.
func (k *Kernel) Put(want Link) error {
	if want.Kind != KindVXLAN || want.VXLAN == nil {
		return fmt.Errorf("link: put %s: a device of kind %q: %w", want.Name, want.Kind, errors.ErrUnsupported)
	}
	have, ok, err := k.Get(want.Name)
	if err != nil {
		return err
	}
	if ok && have.Kind != want.Kind {
		return fmt.Errorf("link: put %s: %w", want.Name, ErrForeign)
	}
	if ok && !keeps(have, want) {
		if err := k.Delete(want.Name); err != nil {
			return err
		}
		ok = false
	}
	if !ok {
		if err := k.addTunnel(want); err != nil {
			return err
		}
	}
	return k.mend(want)
}

func (k *Kernel) addTunnel(want Link) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.HardwareAddr = want.Name, want.MAC[:]
	err := k.nl.LinkAdd(&netlink.Vxlan{
		LinkAttrs: attrs, VxlanId: want.VXLAN.VNI, Port: int(want.VXLAN.Port), SrcAddr: want.VXLAN.Local.AsSlice(),
	})
	if err != nil {
		return fmt.Errorf("link: make vxlan %s (VNI %d, UDP port %d): %w", want.Name, want.VXLAN.VNI, want.VXLAN.Port, err)
	}
	return nil
}

// mend brings the changeable parts of an existing device to what is wanted.
func (k *Kernel) mend(want Link) error {
	l, err := k.find(want.Name)
	if err != nil {
		return err
	}
	if l == nil {
		return fmt.Errorf("link: mend %s: it is gone", want.Name)
	}
	have := k.convert(l, nil)
	if have.Alias != want.Alias {
		if err := k.nl.LinkSetAlias(l, want.Alias); err != nil {
			return fmt.Errorf("link: alias of %s: %w", want.Name, err)
		}
	}
	if have.MTU != want.MTU {
		if err := k.nl.LinkSetMTU(l, want.MTU); err != nil {
			return fmt.Errorf("link: mtu %d of %s: %w", want.MTU, want.Name, err)
		}
	}
	if have.VXLAN != nil && want.VXLAN != nil && have.VXLAN.TxChecksum != want.VXLAN.TxChecksum {
		if err := k.setTxChecksum(want.Name, want.VXLAN.TxChecksum); err != nil {
			return err
		}
	}
	if err := k.mendAddrs(l, want.Addrs); err != nil {
		return err
	}
	return k.SetUp(want.Name, want.Up)
}

func (k *Kernel) mendAddrs(l netlink.Link, want []netip.Prefix) error {
	have, err := k.addrs(l)
	if err != nil {
		return err
	}
	for _, p := range want {
		if !slices.Contains(have, p) {
			if err := k.addAddr(l, p); err != nil {
				return err
			}
		}
	}
	for _, p := range have {
		if !slices.Contains(want, p) {
			if err := k.nl.AddrDel(l, &netlink.Addr{IPNet: ipNet(p)}); err != nil {
				return fmt.Errorf("link: remove address %s from %s: %w", p, l.Attrs().Name, err)
			}
		}
	}
	return nil
}

// addAddr adds an address that is usable at once: duplicate address detection would keep an IPv6 address silent for
// a second, and the address is unique by construction.
func (k *Kernel) addAddr(l netlink.Link, p netip.Prefix) error {
	a := &netlink.Addr{IPNet: ipNet(p)}
	if p.Addr().Is6() {
		a.Flags = unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE
	}
	if err := k.nl.AddrReplace(l, a); err != nil {
		return fmt.Errorf("link: add address %s to %s: %w", p, l.Attrs().Name, err)
	}
	return nil
}

// AddAddr adds an address to a device of any kind.
func (k *Kernel) AddAddr(name string, p netip.Prefix) error {
	l, err := k.must(name)
	if err != nil {
		return err
	}
	return k.addAddr(l, p)
}

// SetUp switches a device of any kind on or off.
func (k *Kernel) SetUp(name string, up bool) error {
	l, err := k.must(name)
	if err != nil {
		return err
	}
	set := k.nl.LinkSetDown
	if up {
		set = k.nl.LinkSetUp
	}
	if err := set(l); err != nil {
		return fmt.Errorf("link: set %s up=%t: %w", name, up, err)
	}
	return nil
}

// AwaitRunning waits until a device that is up carries packets. The kernel notices a new carrier a little after both ends
// of a veth pair are up, and loses what is sent before.
func (k *Kernel) AwaitRunning(name string, patience time.Duration) error {
	for end := time.Now().Add(patience); ; time.Sleep(time.Millisecond) {
		l, err := k.must(name)
		if err != nil {
			return err
		}
		if l.Attrs().OperState == netlink.OperUp {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("link: %s carries no packets after %s: it is %s", name, patience, l.Attrs().OperState)
		}
	}
}

// SetAlias names a device for people.
func (k *Kernel) SetAlias(name, alias string) error {
	l, err := k.must(name)
	if err != nil {
		return err
	}
	if err := k.nl.LinkSetAlias(l, alias); err != nil {
		return fmt.Errorf("link: alias of %s: %w", name, err)
	}
	return nil
}

func (k *Kernel) must(name string) (netlink.Link, error) {
	l, err := k.find(name)
	if err == nil && l == nil {
		err = fmt.Errorf("link: %s: %w", name, unix.ENODEV)
	}
	return l, err
}

// Pair is a veth pair with one end here and the other in another namespace. Both ends have the same MTU and are down.
type Pair struct {
	Name, Peer   string
	MTU          int
	MAC, PeerMAC MAC
	PeerNS       *netns.NS // nil: here too
}

// AddPair makes a veth pair in one step: there is never half of it, nor an end in the wrong namespace.
func (k *Kernel) AddPair(p Pair) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU, attrs.HardwareAddr = p.Name, p.MTU, hardware(p.MAC)
	v := netlink.NewVeth(attrs)
	v.PeerName, v.PeerMTU, v.PeerHardwareAddr = p.Peer, uint32(p.MTU), hardware(p.PeerMAC)
	if p.PeerNS != nil {
		v.PeerNamespace = netlink.NsFd(p.PeerNS.Fd())
	}
	if err := k.nl.LinkAdd(v); err != nil {
		return fmt.Errorf("link: make veth pair %s, %s: %w", p.Name, p.Peer, err)
	}
	return nil
}

func hardware(m MAC) []byte {
	if m == (MAC{}) {
		return nil
	}
	return m[:]
}
