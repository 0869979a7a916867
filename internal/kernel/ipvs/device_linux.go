package ipvs

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	vnl "github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const kindDummy = "dummy"

// find returns the device, nil when there is none.
func (c *Conn) find() (vnl.Link, error) {
	l, err := c.rt.LinkByName(c.device)
	if errors.As(err, &vnl.LinkNotFoundError{}) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("find %s: %w", c.device, err)
	}
	if l.Type() != kindDummy {
		return nil, fmt.Errorf("%s: %w", c.device, ErrForeign)
	}
	return l, nil
}

func (c *Conn) applyDevice(op Op) error {
	switch op.Kind {
	case AddDevice:
		return c.addDevice()
	case DelDevice:
		l, err := c.find()
		if l == nil || err != nil {
			return err
		}
		if err := c.rt.LinkDel(l); err != nil && !errors.Is(err, unix.ENODEV) {
			return err
		}
		return nil
	}
	l, err := c.find()
	if err != nil {
		return err
	}
	if l == nil {
		return fmt.Errorf("%s: %w", c.device, ErrNotExist)
	}
	a := &vnl.Addr{IPNet: &net.IPNet{IP: op.IP.AsSlice(), Mask: net.CIDRMask(op.IP.BitLen(), op.IP.BitLen())}}
	if op.IP.Is6() {
		a.Flags = unix.IFA_F_NODAD | unix.IFA_F_NOPREFIXROUTE
	}
	if op.Kind == AddAddr {
		err = c.rt.AddrAdd(l, a)
		if errors.Is(err, unix.EEXIST) {
			err = nil
		}
		return err
	}
	if err = c.rt.AddrDel(l, a); errors.Is(err, unix.EADDRNOTAVAIL) {
		err = nil
	}
	return err
}

// addDevice makes the device. It stays without a carrier: its addresses are the host's all the same.
func (c *Conn) addDevice() error {
	l, err := c.find()
	if err != nil {
		return err
	}
	if l == nil {
		attrs := vnl.NewLinkAttrs()
		attrs.Name = c.device
		err = c.rt.LinkAdd(&vnl.Dummy{LinkAttrs: attrs})
		if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("%w: %w: the kernel has no dummy devices: load the module dummy (modprobe dummy)", errors.ErrUnsupported, err)
		}
	}
	return err
}

// Has implements Kernel.
func (c *Conn) Has(_ context.Context, a netip.Addr) (bool, error) {
	s := NewState()
	if err := c.readDevice(s); err != nil {
		return false, fmt.Errorf("ipvs: read: %w", err)
	}
	return s.Addrs[a], nil
}

func (c *Conn) readDevice(s *State) error {
	l, err := c.find()
	if l == nil || err != nil {
		return err
	}
	s.Device = true
	var addrs []vnl.Addr
	for range 20 { // the kernel says when the list changed while it was read
		if addrs, err = c.rt.AddrList(l, vnl.FAMILY_ALL); !errors.Is(err, vnl.ErrDumpInterrupted) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("addresses of %s: %w", c.device, err)
	}
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok && !ip.Unmap().IsLinkLocalUnicast() {
			s.Addrs[ip.Unmap()] = true
		}
	}
	return nil
}
