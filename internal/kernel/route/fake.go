package route

import (
	"fmt"
	"net/netip"
	"slices"
)

// Fake is a Door and a NeighbourDoor to a table that exists only in memory. It is not safe for concurrent use.
type Fake struct {
	Table   []Route
	Entries []Neighbour
	// Own are the host's own addresses, of which the main table knows nothing.
	Own []netip.Addr
	// Fail, when set, is asked before every write; its error is the write's.
	Fail func(op string) error
}

// Routes returns the table.
func (f *Fake) Routes() ([]Route, error) {
	out := slices.Clone(f.Table)
	slices.SortFunc(out, Route.Compare)
	return out, nil
}

// Put makes or changes a route.
func (f *Fake) Put(r Route) error {
	if err := f.fail("put " + r.String()); err != nil {
		return err
	}
	if other, ok := foreign(f.Table, r); ok {
		return fmt.Errorf("route: put %s: %w: %s", r, ErrTaken, other)
	}
	f.Table = slices.DeleteFunc(f.Table, func(o Route) bool { return o.Dst == r.Dst && o.Metric == r.Metric && o.Proto == r.Proto })
	f.Table = append(f.Table, r)
	return nil
}

// Delete removes a route.
func (f *Fake) Delete(r Route) error {
	if err := f.fail("delete " + r.String()); err != nil {
		return err
	}
	f.Table = slices.DeleteFunc(f.Table, func(o Route) bool { return o == r })
	return nil
}

// Lookup is the decision by the host's own addresses and the table.
func (f *Fake) Lookup(dst, _ netip.Addr, _ string) (Route, error) {
	if slices.Contains(f.Own, dst) {
		return Route{Dst: netip.PrefixFrom(dst, dst.BitLen()), Type: Local}, nil
	}
	r, ok := Match(f.Table, dst)
	if !ok {
		return Route{}, ErrNoRoute
	}
	return r, nil
}

// Neighbours returns the entries of a device.
func (f *Fake) Neighbours(device string) ([]Neighbour, error) {
	var out []Neighbour
	for _, n := range f.Entries {
		if n.Device == device {
			out = append(out, n)
		}
	}
	slices.SortFunc(out, Neighbour.Compare)
	return out, nil
}

// PutNeighbour makes or changes an entry.
func (f *Fake) PutNeighbour(n Neighbour) error {
	if err := f.fail("put " + n.String()); err != nil {
		return err
	}
	f.Entries = slices.DeleteFunc(f.Entries, func(o Neighbour) bool {
		return o.Device == n.Device && o.FDB == n.FDB && (n.FDB && o.MAC == n.MAC || !n.FDB && o.Addr == n.Addr)
	})
	f.Entries = append(f.Entries, n)
	return nil
}

// DeleteNeighbour removes an entry.
func (f *Fake) DeleteNeighbour(n Neighbour) error {
	if err := f.fail("delete " + n.String()); err != nil {
		return err
	}
	f.Entries = slices.DeleteFunc(f.Entries, func(o Neighbour) bool { return o == n })
	return nil
}

// DeviceGone removes all that hangs on a device, as the kernel does.
func (f *Fake) DeviceGone(device string) {
	f.Table = slices.DeleteFunc(f.Table, func(r Route) bool { return r.Device == device })
	f.Entries = slices.DeleteFunc(f.Entries, func(n Neighbour) bool { return n.Device == device })
}

func (f *Fake) fail(op string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail("route " + op)
}

// foreign finds a route of another protocol in r's place.
func foreign(table []Route, r Route) (Route, bool) {
	i := slices.IndexFunc(table, func(o Route) bool { return o.Dst == r.Dst && o.Metric == r.Metric && o.Proto != r.Proto })
	if i < 0 {
		return Route{}, false
	}
	return table[i], true
}
