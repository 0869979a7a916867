// Package bpf is the door to eBPF programs that are attached to a control group, and to the maps that they share with this
// process. Programs and maps are pinned in a BPF file system, so that they outlive the process and a new one finds them by
// their names. It knows nothing of what programs do.
package bpf

import "context"

// Kernel is the door: the real one is opened by Open, Fake stands in for it on any operating system.
type Kernel interface {
	Maps
	Programs
	Close() error
}

// Maps reads and writes maps by their names. Keys and values are their bytes.
type Maps interface {
	// Dump returns a map as a whole; nil when it is not there.
	Dump(ctx context.Context, name string) (map[string]string, error)
	// Get looks one key up; false when the key or the map is not there.
	Get(ctx context.Context, name, key string) (string, bool, error)
	// Apply carries out the operations in order. An error may leave some of them carried out.
	Apply(ctx context.Context, ops []Op) error
}

// Programs brings an object's programs into the kernel.
type Programs interface {
	// Prepare opens the maps that are pinned, and makes those that are missing, too small for sizes or of another layout.
	// sizes are numbers of entries, for the maps that have no size of their own.
	Prepare(ctx context.Context, sizes map[string]int) error
	// Attach makes the programs of the object the ones that run, with the maps of Prepare, and pins all. Where another
	// version runs it is replaced without a gap. It returns how many programs and maps changed.
	Attach(ctx context.Context) (int, error)
	// Attached names the programs that run, in order; those that run with other maps, or elsewhere, are not among them.
	Attached(ctx context.Context) ([]string, error)
	// Remove detaches all programs and deletes all maps.
	Remove(ctx context.Context) error
}

// Op writes to a map: Puts first, then Dels. Deleting what is not there is no error.
type Op struct {
	Map  string
	Puts []Entry
	Dels []string
}

// Entry is one element of a map.
type Entry struct{ Key, Value string }

// Config says which programs are kept where.
type Config struct {
	Object []byte // ELF; its program sections say what each is attached to
	// Programs are attached in this order and detached in the reverse one: what undoes comes before what it undoes.
	Programs []string
	Dir      string // on a BPF file system, for the pins; made when it is needed
	Cgroup   string // folder of a control group of version 2
}

// grown is the size of a map that is made for n entries: room for twice as many, and never tiny.
func grown(n int) uint32 {
	size := uint32(1 << 12)
	for uint64(size) < 2*uint64(n) && size < 1<<30 {
		size <<= 1
	}
	return size
}
