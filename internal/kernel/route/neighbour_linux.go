package route

import (
	"errors"
	"fmt"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/rtnl"
)

// Neighbours returns the permanent entries of a device; none when there is no such device.
func (k *Kernel) Neighbours(device string) ([]Neighbour, error) {
	index, err := k.index(device)
	if errors.Is(err, unix.ENODEV) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []Neighbour
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6, unix.AF_BRIDGE} {
		raw, err := rtnl.List(func() ([]netlink.Neigh, error) { return k.nl.NeighList(index, family) })
		if err != nil {
			return nil, fmt.Errorf("route: list neighbours of %s: %w", device, err)
		}
		for _, n := range raw {
			c := Neighbour{Device: device, Addr: addr(n.IP), FDB: family == unix.AF_BRIDGE}
			if n.State&netlink.NUD_PERMANENT == 0 || len(n.HardwareAddr) != len(c.MAC) || !c.Addr.IsValid() {
				continue
			}
			c.MAC = link.MAC(n.HardwareAddr)
			out = append(out, c)
		}
	}
	slices.SortFunc(out, Neighbour.Compare)
	return out, nil
}

// PutNeighbour makes or changes an entry.
func (k *Kernel) PutNeighbour(n Neighbour) error {
	raw, err := k.rawNeighbour(n)
	if err != nil {
		return err
	}
	if err := k.nl.NeighSet(raw); err != nil {
		return fmt.Errorf("route: put %s: %w", n, err)
	}
	return nil
}

// DeleteNeighbour removes an entry.
func (k *Kernel) DeleteNeighbour(n Neighbour) error {
	raw, err := k.rawNeighbour(n)
	if errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := k.nl.NeighDel(raw); err != nil && !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("route: delete %s: %w", n, err)
	}
	return nil
}

func (k *Kernel) rawNeighbour(n Neighbour) (*netlink.Neigh, error) {
	index, err := k.index(n.Device)
	if err != nil {
		return nil, err
	}
	raw := &netlink.Neigh{
		LinkIndex: index, Family: family(n.Addr), State: netlink.NUD_PERMANENT,
		IP: n.Addr.AsSlice(), HardwareAddr: n.MAC[:],
	}
	if n.FDB {
		raw.Family, raw.Flags = unix.AF_BRIDGE, netlink.NTF_SELF
	}
	return raw, nil
}
