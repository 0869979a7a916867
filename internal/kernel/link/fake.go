package link

import (
	"fmt"
	"slices"
	"strings"
)

// Fake is a Door to devices that exist only in memory. It is not safe for concurrent use.
type Fake struct {
	Links map[string]Link
	// Fail, when set, is asked before every write; its error is the write's.
	Fail func(op string) error
	// Gone, when set, is told of every device that was deleted, so that routes on it can go too.
	Gone func(name string)

	index int
}

// NewFake returns a namespace with the given devices.
func NewFake(links ...Link) *Fake {
	f := &Fake{Links: map[string]Link{}}
	for _, l := range links {
		f.set(l)
	}
	return f
}

func (f *Fake) set(l Link) {
	f.index++
	l.Index = f.index
	SortAddrs(l.Addrs)
	f.Links[l.Name] = l
}

// List returns all devices by name.
func (f *Fake) List() ([]Link, error) {
	var out []Link
	for _, l := range f.Links {
		l.Addrs = slices.Clone(l.Addrs)
		out = append(out, l)
	}
	slices.SortFunc(out, func(a, b Link) int { return strings.Compare(a.Name, b.Name) })
	return out, nil
}

// Get returns a device.
func (f *Fake) Get(name string) (Link, bool, error) {
	l, ok := f.Links[name]
	return l, ok, nil
}

// Put makes or mends a tunnel device.
func (f *Fake) Put(l Link) error {
	if err := f.fail("put " + l.Name); err != nil {
		return err
	}
	old, ok := f.Links[l.Name]
	if ok && old.Kind != l.Kind {
		return fmt.Errorf("link: put %s: %w", l.Name, ErrForeign)
	}
	if ok && !keeps(old, l) {
		f.drop(l.Name)
	}
	l.Addrs = slices.Clone(l.Addrs)
	f.set(l)
	return nil
}

// Delete removes a device.
func (f *Fake) Delete(name string) error {
	if err := f.fail("delete " + name); err != nil {
		return err
	}
	f.drop(name)
	return nil
}

func (f *Fake) drop(name string) {
	if _, ok := f.Links[name]; !ok {
		return
	}
	delete(f.Links, name)
	if f.Gone != nil {
		f.Gone(name)
	}
}

func (f *Fake) fail(op string) error {
	if f.Fail == nil {
		return nil
	}
	return f.Fail("link " + op)
}

// keeps reports whether have can become want without being made anew.
func keeps(have, want Link) bool {
	if have.MAC != want.MAC || have.VXLAN == nil || want.VXLAN == nil {
		return false
	}
	a, b := *have.VXLAN, *want.VXLAN
	a.TxChecksum = b.TxChecksum // can be changed in place
	return a == b
}
