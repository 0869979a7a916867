package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/nettest/vm/guest"
)

// loader loads modules, each once.
type loader struct {
	*guest.Index
	done map[string]error
}

func newLoader() (*loader, error) {
	x, err := guest.Read[guest.Index](guest.IndexFile)
	return &loader{Index: x, done: map[string]error{}}, err
}

// load loads a module or alias with all it depends on. Of several modules with one alias, one that loads is enough.
func (l *loader) load(name string) error {
	if l.Builtin[guest.Name(name)] {
		return nil
	}
	found := l.Find(name)
	if len(found) == 0 {
		return fmt.Errorf("module %s is not in the initramfs", name)
	}
	var errs []error
	for _, m := range found {
		err := l.one(m)
		if err == nil {
			errs = nil
			break
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (l *loader) one(m string) error {
	if err, seen := l.done[m]; seen {
		return err
	}
	l.done[m] = nil // ends a circle of soft dependencies
	err := l.insert(m)
	l.done[m] = err
	return err
}

func (l *loader) insert(m string) error {
	if _, err := os.Stat("/sys/module/" + m + "/refcnt"); err == nil {
		return nil
	}
	for _, d := range l.Modules[m].Depends {
		d, soft := strings.CutPrefix(d, "~")
		if err := l.load(d); err != nil && !soft {
			return fmt.Errorf("%s needs %w", m, err)
		}
	}
	f, err := os.Open(l.Modules[m].File)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), "", 0); err != nil && err != unix.EEXIST {
		return fmt.Errorf("module %s: %w", m, err)
	}
	return nil
}

// modprobe is called by the kernel: "modprobe -q -- alias".
func modprobe(args []string) int {
	l, err := newLoader()
	if err != nil {
		return 1
	}
	for _, a := range args {
		if strings.HasPrefix(a, "-") || strings.Contains(a, "=") {
			continue
		}
		if err := l.load(a); err != nil {
			return 1
		}
	}
	return 0
}
