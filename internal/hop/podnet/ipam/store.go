package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Store is the folder of reservations.
type Store struct {
	dir  string
	step func(string) // told before each change to the folder; tests crash there
}

// Open returns the store in a folder, which is made by the first reservation.
func Open(dir string) *Store { return &Store{dir: dir, step: func(string) {}} }

// OnStep makes f be told before each change to the folder. Only tests have a use for it: they crash there.
func (s *Store) OnStep(f func(step string)) { s.step = f }

// Reserve gives the interface one address of each range and returns the reservation with them. An older reservation of
// the same interface is the remains of an attempt that was killed, and goes. When a range is full, reservations of which
// dead is true go too. Nothing is reserved when there is an error: ErrFull, or of the file system.
func (s *Store) Reserve(r Reservation, ranges []netip.Prefix, dead func(Reservation) bool) (Reservation, error) {
	err := s.locked(func() error {
		if err := s.drop(func(o Reservation) bool { return o.Is(r.Container, r.IfName) }); err != nil {
			return err
		}
		err := s.take(&r, ranges)
		if errors.Is(err, ErrFull) && dead != nil {
			if err := s.drop(dead); err != nil {
				return err
			}
			err = s.take(&r, ranges)
		}
		return err
	})
	return r, err
}

func (s *Store) take(r *Reservation, ranges []netip.Prefix) error {
	taken, err := s.taken()
	if err != nil {
		return err
	}
	r.Addrs = nil
	for _, p := range ranges {
		a, err := next(p, s.lastOf(p), taken)
		if err == nil {
			err = s.write(a, *r)
		}
		if err != nil {
			for _, a := range r.Addrs {
				os.Remove(s.path(a.String()))
			}
			r.Addrs = nil
			return err
		}
		r.Addrs = append(r.Addrs, a)
		s.remember(a)
	}
	return s.syncDir()
}

// Release gives the addresses of an interface back; that there are none is no error.
func (s *Store) Release(container, ifname string) error {
	return s.Drop(func(r Reservation) bool { return r.Is(container, ifname) })
}

// Drop gives back the addresses of all reservations for which gone is true.
func (s *Store) Drop(gone func(Reservation) bool) error {
	if _, err := os.Stat(s.dir); errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return s.locked(func() error { return s.drop(gone) })
}

// Locked calls f with all reservations while none can be made or given back.
func (s *Store) Locked(f func(all []Reservation) error) error {
	return s.locked(func() error {
		all, err := s.List()
		if err != nil {
			return err
		}
		return f(all)
	})
}

// unfinishedName is a file of the store's that is no address.
const unfinishedName = ".unfinished"

// Unfinished is what somebody who follows the reservations had begun and not finished when it last ended, in that one's own
// words; nil when there is nothing.
func (s *Store) Unfinished() ([]byte, error) {
	b, err := os.ReadFile(s.path(unfinishedName))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ipam: read what is unfinished: %w", err)
	}
	return b, nil
}

// SetUnfinished replaces it, as a whole or not at all; nil says that all is done. It belongs inside Locked.
func (s *Store) SetUnfinished(b []byte) error {
	err := error(nil)
	if side := s.path(".new"); b == nil {
		err = os.Remove(s.path(unfinishedName))
	} else if err = os.WriteFile(side, b, 0o644); err == nil {
		err = os.Rename(side, s.path(unfinishedName))
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("ipam: note what is unfinished: %w", err)
	}
	return nil
}

func (s *Store) drop(gone func(Reservation) bool) error {
	all, err := s.List()
	if err != nil {
		return err
	}
	dropped := false
	for _, r := range all {
		if !gone(r) {
			continue
		}
		for _, a := range r.Addrs {
			s.step("release")
			if err := os.Remove(s.path(a.String())); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("ipam: release: %w", err)
			}
			dropped = true
		}
	}
	if !dropped {
		return nil
	}
	return s.syncDir()
}

// List returns all reservations ordered by address; none when there is no folder yet. A file that cannot be understood
// is a reservation of nobody.
func (s *Store) List() ([]Reservation, error) {
	taken, err := s.taken()
	if err != nil {
		return nil, err
	}
	type key struct{ container, ifname string }
	index, all := map[key]int{}, []Reservation{}
	for a := range taken {
		var r Reservation
		b, err := os.ReadFile(s.path(a.String()))
		if errors.Is(err, os.ErrNotExist) {
			continue // released while we look
		}
		if err != nil {
			return nil, fmt.Errorf("ipam: read: %w", err)
		}
		if json.Unmarshal(b, &r) != nil || r.Container == "" {
			all = append(all, Reservation{Addrs: []netip.Addr{a}})
			continue
		}
		k := key{r.Container, r.IfName}
		i, ok := index[k]
		if !ok {
			i = len(all)
			index[k], all = i, append(all, r)
		}
		all[i].Addrs = append(all[i].Addrs, a)
	}
	return sorted(all), nil
}

// Find returns the reservation of an interface, and whether there is one.
func (s *Store) Find(container, ifname string) (Reservation, bool, error) {
	all, err := s.List()
	i := slices.IndexFunc(all, func(r Reservation) bool { return r.Is(container, ifname) })
	if err != nil || i < 0 {
		return Reservation{}, false, err
	}
	return all[i], true, nil
}

func (s *Store) taken() (map[netip.Addr]bool, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("ipam: list: %w", err)
	}
	out := map[netip.Addr]bool{}
	for _, e := range entries {
		if a, err := netip.ParseAddr(e.Name()); err == nil {
			out[a] = true
		}
	}
	return out, nil
}

// lastOf is the address of p that was given last, so that the next Pod gets another one: packets, cache entries and
// connections of the Pod that had an address may be under way for a while. It is a hint: losing it loses nothing else.
func (s *Store) lastOf(p netip.Prefix) netip.Addr {
	b, _ := os.ReadFile(s.path(lastName(p.Addr())))
	a, _ := netip.ParseAddr(strings.TrimSpace(string(b)))
	return a
}

func (s *Store) remember(a netip.Addr) {
	s.step("remember")
	_ = os.WriteFile(s.path(lastName(a)), []byte(a.String()+"\n"), 0o644)
}

func lastName(a netip.Addr) string {
	if a.Is4() {
		return ".last-ipv4"
	}
	return ".last-ipv6"
}

func (s *Store) path(name string) string { return filepath.Join(s.dir, name) }
