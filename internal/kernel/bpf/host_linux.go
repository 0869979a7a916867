package bpf

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/kernel/netns"
)

// Where the file systems are: first as a container sees the host's, then as the host does. On hosts with both versions of
// control groups, version 2 is below the other.
var (
	cgroups = []string{"/host/cgroup", "/host/cgroup/unified", "/host/sys/fs/cgroup", "/host/sys/fs/cgroup/unified",
		"/sys/fs/cgroup", "/sys/fs/cgroup/unified"}
	fileSystems = []string{"/host/bpf", "/host/sys/fs/bpf", "/sys/fs/bpf"}
)

// FindCgroup returns the folder of the node's control group of version 2: the top of what is mounted.
func FindCgroup() string { return find(cgroups, unix.CGROUP2_SUPER_MAGIC) }

// FindFS returns where a BPF file system is mounted.
func FindFS() string { return find(fileSystems, unix.BPF_FS_MAGIC) }

// MountFS mounts a BPF file system at the first of its usual places that is there, unless one has it already. It reports
// whether it did. In a container the mount must go through to the host (mountPropagation Bidirectional).
func MountFS() (bool, error) { return mountFS(fileSystems) }

func mountFS(folders []string) (bool, error) {
	dir := find(folders, unix.BPF_FS_MAGIC)
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) == nil && st.Type == unix.BPF_FS_MAGIC {
		return false, nil
	}
	for _, dir = range folders {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if err := unix.Mount("bpf", dir, "bpf", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "mode=700"); err != nil {
			return false, fmt.Errorf("bpf: mount a BPF file system on %s: %w", dir, explain(err))
		}
		return true, nil
	}
	return false, fmt.Errorf("bpf: no folder %s: this kernel has no CONFIG_BPF_SYSCALL: %w", dir, errors.ErrUnsupported)
}

// find returns the first of the folders that is on a file system of a kind, else the last, for the error to name.
func find(folders []string, magic int64) string {
	for _, dir := range folders {
		var st unix.Statfs_t
		if unix.Statfs(dir, &st) == nil && st.Type == magic {
			return dir
		}
	}
	return folders[len(folders)-1]
}

// Netns is the cookie by which programs tell a network namespace; nil is the caller's own.
func Netns(ns *netns.NS) (cookie uint64, err error) {
	ask := func() error {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		cookie, err = unix.GetsockoptUint64(fd, unix.SOL_SOCKET, unix.SO_NETNS_COOKIE)
		return err
	}
	if ns == nil {
		err = ask()
	} else {
		err = ns.Do(ask)
	}
	if err != nil {
		return 0, fmt.Errorf("bpf: ask for the network namespace's cookie: %w", explain(err))
	}
	return cookie, nil
}

// Try loads the programs with maps of their own and lets them run in a control group without processes. Nothing of it
// stays. The error says what the host lacks.
func (k *Conn) Try(ctx context.Context) error {
	if err := k.place(); err != nil {
		return err
	}
	group, err := os.MkdirTemp(k.c.Cgroup, "podway-try-")
	if err != nil {
		return fmt.Errorf("bpf: make a control group to try: %w", explain(err))
	}
	defer os.Remove(group)
	try := &Conn{c: k.c, spec: k.spec, maps: map[string]*ebpf.Map{}, pinned: map[string]bool{}}
	try.c.Dir, try.c.Cgroup = filepath.Join(filepath.Dir(k.c.Dir), filepath.Base(group)), group
	defer try.Close()
	if err := try.Prepare(ctx, nil); err != nil {
		return err
	}
	_, err = try.Attach(ctx)
	if again := try.Remove(ctx); err == nil {
		err = again
	}
	return err
}
