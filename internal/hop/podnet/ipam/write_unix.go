//go:build unix

package ipam

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"syscall"
)

// locked runs f while no other process or goroutine changes the folder. The lock ends with the process that holds it.
func (s *Store) locked(f func() error) error {
	if err := os.MkdirAll(s.dir, 0o755); err != nil {
		return fmt.Errorf("ipam: make folder: %w", err)
	}
	lock, err := os.OpenFile(s.path(".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("ipam: open lock: %w", err)
	}
	defer lock.Close()
	for {
		err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		return fmt.Errorf("ipam: lock: %w", err)
	}
	return f()
}

// write makes the file of an address. Whole or not at all: the content is on disk before the name exists, and link fails
// when the name exists.
func (s *Store) write(a netip.Addr, r Reservation) error {
	b, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("ipam: reserve %s: %w", a, err)
	}
	side := s.path(".new")
	s.step("write")
	f, err := os.OpenFile(side, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("ipam: reserve %s: %w", a, err)
	}
	_, err = f.Write(append(b, '\n'))
	s.step("sync")
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		s.step("link")
		err = os.Link(side, s.path(a.String()))
	}
	s.step("unlink")
	os.Remove(side)
	if err != nil {
		return fmt.Errorf("ipam: reserve %s: %w", a, err)
	}
	return nil
}

func (s *Store) syncDir() error {
	s.step("sync folder")
	d, err := os.Open(s.dir)
	if err != nil {
		return fmt.Errorf("ipam: sync folder: %w", err)
	}
	defer d.Close()
	if err := d.Sync(); err != nil {
		return fmt.Errorf("ipam: sync folder: %w", err)
	}
	return nil
}
