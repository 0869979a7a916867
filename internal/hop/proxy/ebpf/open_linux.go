package ebpf

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/kernel/bpf"
	"github.com/podway/podway/internal/kernel/netns"
)

// Paths are where the node's file systems are; "" looks at the usual places.
type Paths struct {
	Cgroup string // control group of version 2 that holds the node and its Pods
	BPF    string // BPF file system, for the pins
	Netns  string // folder with the network namespaces of Pods
}

// FromEnvironment takes the paths from PODWAY_CGROUP, PODWAY_BPF and PODWAY_NETNS, where they are set.
func FromEnvironment() Paths {
	return Paths{Cgroup: os.Getenv("PODWAY_CGROUP"), BPF: os.Getenv("PODWAY_BPF"), Netns: os.Getenv("PODWAY_NETNS")}
}

// filled are the paths with the usual places in.
func (p Paths) filled() Paths {
	if p.Cgroup == "" {
		p.Cgroup = bpf.FindCgroup()
	}
	if p.BPF == "" {
		p.BPF = bpf.FindFS()
	}
	return p
}

func (p Paths) pins() string { return filepath.Join(p.BPF, dirName) }

// Leave ends what this mode has at a node's sockets, of whichever process, and reports whether there was anything. The
// packets' rules stay: they serve everybody at once.
func Leave(ctx context.Context, p Paths) (bool, error) {
	p = p.filled()
	if _, err := os.Stat(p.pins()); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return true, In(nil, p).RemoveOwn(ctx)
}

// In returns the backend of a node: its programs at the node's control group, its packets' rules and UDP sockets in the
// node's network namespace; nil is the caller's own.
func In(ns *netns.NS, p Paths) *Backend {
	p = p.filled()
	folders := namespaces
	if p.Netns != "" {
		folders = []string{p.Netns}
	}
	c := bpf.Config{Object: object, Programs: programs, Dir: p.pins(), Cgroup: p.Cgroup}
	return New(Host{
		Open:    func() (bpf.Kernel, error) { return bpf.Open(c) },
		Packets: nft.In(ns),
		Netns:   func() (uint64, error) { return bpf.Netns(ns) },
		Close:   closer{ns, folders}.close,
	})
}
