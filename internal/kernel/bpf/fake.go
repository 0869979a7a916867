package bpf

import (
	"context"
	"fmt"
	"maps"
	"sync"
)

// Fake keeps maps in memory and pretends to run programs.
type Fake struct {
	programs []string

	mu       sync.Mutex
	maps     map[string]map[string]string
	attached map[string]bool
	// Fail, when set, is asked before each write and may refuse it.
	Fail func() error
}

// NewFake returns a host without programs. names are those of the object's programs.
func NewFake(names []string) *Fake { return &Fake{programs: names, attached: map[string]bool{}} }

func (f *Fake) write() error {
	if f.Fail != nil {
		return f.Fail()
	}
	return nil
}

// Dump implements Maps.
func (f *Fake) Dump(_ context.Context, name string) (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.maps[name]), nil
}

// Get implements Maps.
func (f *Fake) Get(_ context.Context, name, key string) (string, bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	v, ok := f.maps[name][key]
	return v, ok, nil
}

// Apply implements Maps.
func (f *Fake) Apply(_ context.Context, ops []Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.write(); err != nil {
		return err
	}
	if f.maps == nil {
		return fmt.Errorf("bpf: the maps are not prepared")
	}
	for _, op := range ops {
		m := f.maps[op.Map]
		if m == nil {
			m = map[string]string{}
			f.maps[op.Map] = m
		}
		for _, e := range op.Puts {
			m[e.Key] = e.Value
		}
		for _, k := range op.Dels {
			delete(m, k)
		}
	}
	return nil
}

// Prepare implements Programs.
func (f *Fake) Prepare(context.Context, map[string]int) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.maps == nil {
		if err := f.write(); err != nil {
			return err
		}
		f.maps = map[string]map[string]string{}
	}
	return nil
}

// Attach implements Programs.
func (f *Fake) Attach(context.Context) (n int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.programs {
		if f.attached[p] {
			continue
		}
		if err := f.write(); err != nil {
			return n, err
		}
		f.attached[p] = true
		n++
	}
	return n, nil
}

// Attached implements Programs.
func (f *Fake) Attached(context.Context) (out []string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.programs {
		if f.attached[p] {
			out = append(out, p)
		}
	}
	return out, nil
}

// Detach takes a program away, as somebody else might.
func (f *Fake) Detach(name string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.attached, name)
}

// Remove implements Programs.
func (f *Fake) Remove(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.write(); err != nil {
		return err
	}
	f.maps = nil
	clear(f.attached)
	return nil
}

// Close does nothing.
func (f *Fake) Close() error { return nil }
