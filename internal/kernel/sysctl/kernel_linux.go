package sysctl

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// Kernel is the Door of a real network namespace. It is safe for concurrent use.
type Kernel struct{ ns *netns.NS }

// Open opens the settings of a namespace, which must stay open; nil is the calling thread's.
func Open(ns *netns.NS) *Kernel { return &Kernel{ns: ns} }

// Get returns a value.
func (k *Kernel) Get(key string) (value string, err error) {
	err = k.do(func() error {
		value, err = get(key)
		return err
	})
	return value, err
}

// Set writes a value.
func (k *Kernel) Set(key, value string) error {
	return k.do(func() error {
		if old, err := get(key); err != nil || old == value {
			return err
		}
		err := os.WriteFile(path(key), []byte(value), 0o644)
		if errors.Is(err, unix.EROFS) || errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
			return fmt.Errorf("sysctl: write %s: %w", key, ErrReadOnly)
		}
		if err != nil {
			return fmt.Errorf("sysctl: write %s: %w", key, err)
		}
		return nil
	})
}

func (k *Kernel) do(f func() error) error {
	if k.ns == nil {
		return f()
	}
	return k.ns.Do(f)
}

func get(key string) (string, error) {
	b, err := os.ReadFile(path(key))
	if err != nil {
		return "", fmt.Errorf("sysctl: read %s: %w", key, err)
	}
	return strings.TrimSpace(string(b)), nil
}

func path(key string) string { return filepath.Join("/proc/sys", filepath.Clean("/"+key)) }
