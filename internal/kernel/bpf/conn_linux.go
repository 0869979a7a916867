package bpf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// Conn keeps the programs of one object. It is not safe for concurrent use.
type Conn struct {
	c      Config
	spec   *ebpf.CollectionSpec
	maps   map[string]*ebpf.Map // open ones
	pinned map[string]bool      // of maps: by their present pins
	progs  map[string]*ebpf.Program
}

// Open opens the door. Nothing in the kernel changes.
func Open(c Config) (*Conn, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(c.Object))
	if err != nil {
		return nil, fmt.Errorf("bpf: read the object: %w", err)
	}
	for _, p := range c.Programs {
		if spec.Programs[p] == nil {
			return nil, fmt.Errorf("bpf: the object has no program %s", p)
		}
	}
	return &Conn{c: c, spec: spec, maps: map[string]*ebpf.Map{}, pinned: map[string]bool{}}, nil
}

// Close closes the door; what is pinned stays.
func (k *Conn) Close() error {
	k.forget()
	return nil
}

// forget closes all that is open, so that the next call looks at the pins again.
func (k *Conn) forget() {
	for _, m := range k.maps {
		m.Close()
	}
	clear(k.maps)
	clear(k.pinned)
	k.unload()
}

func (k *Conn) unload() {
	for _, p := range k.progs {
		p.Close()
	}
	k.progs = nil
}

func (k *Conn) mapPin(name string) string  { return filepath.Join(k.c.Dir, "map-"+name) }
func (k *Conn) progPin(name string) string { return filepath.Join(k.c.Dir, "prog-"+name) }
func (k *Conn) linkPin(name string) string { return filepath.Join(k.c.Dir, "link-"+name) }

// open returns a map that is open or pinned; nil when there is none.
func (k *Conn) open(name string) (*ebpf.Map, error) {
	if m := k.maps[name]; m != nil {
		return m, nil
	}
	m, err := ebpf.LoadPinnedMap(k.mapPin(name), nil)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("bpf: open map %s: %w", name, explain(err))
	}
	k.maps[name], k.pinned[name] = m, true
	return m, nil
}

// Prepare implements Programs.
func (k *Conn) Prepare(_ context.Context, sizes map[string]int) error {
	if err := k.place(); err != nil {
		return err
	}
	for name, spec := range k.spec.Maps {
		m, err := k.open(name)
		if err != nil {
			return err
		}
		if m != nil && fits(m, spec, sizes[name]) {
			continue
		}
		spec := spec.Copy()
		if n, ok := sizes[name]; ok {
			spec.MaxEntries = grown(n)
		}
		made, err := ebpf.NewMap(spec)
		if err != nil {
			return fmt.Errorf("bpf: make map %s: %w", name, explain(err))
		}
		if m != nil {
			m.Close()
		}
		k.maps[name], k.pinned[name] = made, false
		k.unload()
	}
	return nil
}

func fits(m *ebpf.Map, spec *ebpf.MapSpec, n int) bool {
	return m.Type() == spec.Type && m.KeySize() == spec.KeySize && m.ValueSize() == spec.ValueSize && m.Flags() == spec.Flags &&
		(m.MaxEntries() == spec.MaxEntries || spec.MaxEntries == 1 && uint64(m.MaxEntries()) >= uint64(n))
}

// place makes the folder of the pins.
func (k *Conn) place() error {
	parent := filepath.Dir(k.c.Dir)
	var st unix.Statfs_t
	if err := unix.Statfs(parent, &st); err != nil || st.Type != unix.BPF_FS_MAGIC {
		return fmt.Errorf("bpf: %s is no BPF file system; mount -t bpf bpf %s: %w", parent, parent, errors.ErrUnsupported)
	}
	if err := unix.Statfs(k.c.Cgroup, &st); err != nil || st.Type != unix.CGROUP2_SUPER_MAGIC {
		return fmt.Errorf("bpf: %s is no control group of version 2: %w", k.c.Cgroup, errors.ErrUnsupported)
	}
	if err := os.MkdirAll(k.c.Dir, 0o700); err != nil {
		return fmt.Errorf("bpf: make the folder of the pins: %w", err)
	}
	return nil
}

// load loads the programs, once for each set of maps.
func (k *Conn) load() error {
	if k.progs != nil {
		return nil
	}
	spec := k.spec.Copy()
	for name, m := range k.maps {
		if s := spec.Maps[name]; s != nil {
			s.MaxEntries = m.MaxEntries()
		}
	}
	for name := range spec.Programs {
		if !slices.Contains(k.c.Programs, name) {
			delete(spec.Programs, name)
		}
	}
	all, err := ebpf.NewCollectionWithOptions(spec, ebpf.CollectionOptions{MapReplacements: k.maps})
	if err != nil {
		return fmt.Errorf("bpf: load programs: %w", explain(err))
	}
	k.progs = all.Programs
	all.Programs = nil
	all.Close()
	return nil
}

// pin makes the pins those of the maps in use. It comes first: a process that is ended in between leaves programs that
// run with maps without a pin, which the next one sees and replaces.
func (k *Conn) pin() (n int, err error) {
	for name, m := range k.maps {
		if k.pinned[name] {
			continue
		}
		if err := repin(k.mapPin(name), m); err != nil {
			return n, fmt.Errorf("bpf: pin map %s: %w", name, explain(err))
		}
		k.pinned[name] = true
		n++
	}
	return n, nil
}

// repin makes a pin lead to another object. Programs and links go on with the former one.
func repin(path string, o interface {
	Pin(string) error
	Unpin() error
}) error {
	if err := o.Unpin(); err != nil && !errors.Is(err, fs.ErrNotExist) { // the object may believe that its pin is there
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return o.Pin(path)
}

// explain says what to do about errors that an operator can mend.
func explain(err error) error {
	switch {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w (the capabilities BPF and NET_ADMIN are needed)", err)
	case errors.Is(err, unix.EINVAL), errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("%w (Linux 5.14 or newer with CONFIG_BPF_SYSCALL and CONFIG_CGROUP_BPF is needed): %w", err, errors.ErrUnsupported)
	}
	return err
}
