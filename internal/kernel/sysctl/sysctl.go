// Package sysctl is the door to kernel settings below /proc/sys. Those of the network belong to the network namespace in
// which they are read. It owns no setting.
package sysctl

import (
	"errors"
	"fmt"
	"io/fs"
)

// Door reads and writes settings. A key is the path below /proc/sys: "net/ipv4/ip_forward".
type Door interface {
	// Get returns the value without white space around it; fs.ErrNotExist when the kernel has no such setting.
	Get(key string) (string, error)
	// Set writes a value; it does not write one that is already there, so that a read-only /proc/sys is no error then.
	Set(key, value string) error
}

// ErrReadOnly says that the setting cannot be written from here: a container's /proc/sys is often read-only.
var ErrReadOnly = errors.New("/proc/sys is read-only here")

// Fake is a Door to settings in memory. It is not safe for concurrent use.
type Fake struct {
	Values   map[string]string
	ReadOnly bool
	// Fail, when set, is asked before every write; its error is the write's.
	Fail func(op string) error
}

// Get returns a value.
func (f *Fake) Get(key string) (string, error) {
	v, ok := f.Values[key]
	if !ok {
		return "", fmt.Errorf("sysctl: read %s: %w", key, fs.ErrNotExist)
	}
	return v, nil
}

// Set writes a value.
func (f *Fake) Set(key, value string) error {
	old, err := f.Get(key)
	if err != nil || old == value {
		return err
	}
	if f.ReadOnly {
		return fmt.Errorf("sysctl: write %s: %w", key, ErrReadOnly)
	}
	if f.Fail != nil {
		if err := f.Fail("sysctl " + key); err != nil {
			return err
		}
	}
	f.Values[key] = value
	return nil
}
