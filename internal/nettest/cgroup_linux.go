package nettest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// groups are control groups of version 2, one for each node, and a BPF file system, for programs that are attached to
// them. Both file systems are mounted nowhere: they are reached by this process's descriptors, and gone with it.
type groups struct {
	cgroup, bpf int    // descriptors of the mounts
	base        string // the group that this process is in
	made        []string
}

// UseCgroups gives every node that is added from now on a control group. What a node and its Pods do by Do, Connect, Get,
// Serve and Start is done in it.
func (w *World) UseCgroups() error {
	g, err := newGroups()
	if err != nil {
		return fmt.Errorf("nettest: %w", err)
	}
	w.groups = g
	return nil
}

func newGroups() (g *groups, err error) {
	g = &groups{cgroup: -1, bpf: -1}
	if g.cgroup, err = mountPrivately("cgroup2"); err == nil {
		g.bpf, err = mountPrivately("bpf")
	}
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return nil, errors.Join(err, g.close())
	}
	path := "/"
	for line := range strings.Lines(string(own)) {
		if p, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
			path = p
		}
	}
	g.base = filepath.Join(descriptor(g.cgroup), path)
	g.sweep()
	return g, nil
}

// mountPrivately mounts a file system without a place in any tree.
func mountPrivately(fstype string) (int, error) {
	fd, err := unix.Fsopen(fstype, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open file system %s: %w", fstype, err)
	}
	defer unix.Close(fd)
	if err := unix.FsconfigCreate(fd); err != nil {
		return -1, fmt.Errorf("make file system %s: %w", fstype, err)
	}
	m, err := unix.Fsmount(fd, unix.FSMOUNT_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("mount file system %s: %w", fstype, err)
	}
	return m, nil
}

// descriptor names an open descriptor for other processes too.
func descriptor(fd int) string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd) }

func prefixOf(pid int) string { return fmt.Sprintf("pw%d-", pid) }

// sweep removes the groups of processes that were killed.
func (g *groups) sweep() {
	old, _ := filepath.Glob(filepath.Join(g.base, "pw*-*"))
	for _, dir := range old {
		var pid int
		if _, err := fmt.Sscanf(filepath.Base(dir), "pw%d-", &pid); err == nil && unix.Kill(pid, 0) == unix.ESRCH {
			_ = os.Remove(dir) // busy while its processes end
		}
	}
}

// add makes a group for single threads: this process stays where it is.
func (g *groups) add(name string) (string, error) {
	dir := filepath.Join(g.base, fmt.Sprintf("%s%d-%s", prefixOf(os.Getpid()), len(g.made), name))
	for try := 0; ; try++ { // the next number, when another world of this process has this one
		err := os.Mkdir(dir, 0o755)
		if err == nil {
			break
		}
		if !errors.Is(err, os.ErrExist) || try == 1000 {
			return "", fmt.Errorf("make control group: %w", err)
		}
		dir = filepath.Join(g.base, fmt.Sprintf("%s%d.%d-%s", prefixOf(os.Getpid()), len(g.made), try, name))
	}
	g.made = append(g.made, dir)
	if err := os.WriteFile(filepath.Join(dir, "cgroup.type"), []byte("threaded"), 0); err != nil {
		return "", fmt.Errorf("make control group threaded: %w", err)
	}
	if err := os.Mkdir(filepath.Join(descriptor(g.bpf), name), 0o700); err != nil {
		return "", fmt.Errorf("make folder for BPF pins: %w", err)
	}
	return dir, nil
}

// close removes the groups, when their last threads have ended, and lets go of the file systems.
func (g *groups) close() error {
	var errs []error
	for _, dir := range g.made {
		err := os.Remove(dir)
		for end := time.Now().Add(5 * time.Second); errors.Is(err, unix.EBUSY) && time.Now().Before(end); err = os.Remove(dir) {
			time.Sleep(5 * time.Millisecond)
		}
		errs = append(errs, err)
	}
	for _, fd := range []int{g.cgroup, g.bpf} {
		if fd >= 0 {
			errs = append(errs, unix.Close(fd))
		}
	}
	return errors.Join(errs...)
}

// Cgroup is the node's control group, and BPF a folder for it on a BPF file system: paths for any process of this user, as
// long as this one lives. They are "" unless the World uses control groups.
func (h *Host) Cgroup() string { return h.cgroup }

// BPF is described at Cgroup.
func (h *Host) BPF() string {
	if h.cgroup == "" {
		return ""
	}
	return filepath.Join(descriptor(h.world.groups.bpf), h.Name)
}

// InCgroupOf makes the host act in a node's control group, as the Pods of AddPod do.
func (h *Host) InCgroupOf(node *Host) { h.cgroup = node.cgroup }

// join moves the calling thread into the host's control group.
func (h *Host) join() error {
	if h.cgroup == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(h.cgroup, "cgroup.threads"), []byte(fmt.Sprint(unix.Gettid())), 0); err != nil {
		return fmt.Errorf("nettest: host %s: join control group: %w", h.Name, err)
	}
	return nil
}

// probeEBPF tries what UseCgroups needs.
func probeEBPF() error {
	g, err := newGroups()
	if err != nil {
		return err
	}
	_, err = g.add("probe")
	return errors.Join(err, g.close())
}
