package cgroup

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Detect reads how the trees are mounted: the type of the file system at Root says which version.
func Detect() (Host, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(Root, &st); err != nil {
		return Host{}, fmt.Errorf("cgroup: %s: %w; mount the cgroup file system there", Root, err)
	}
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return Host{}, fmt.Errorf("cgroup: %w", err)
	}
	defer f.Close()
	all, err := parseMountinfo(f, Root)
	if err != nil {
		return Host{}, err
	}
	h := Host{Unified: st.Type == unix.CGROUP2_SUPER_MAGIC}
	for _, t := range all {
		if h.Unified != (t.Unified && t.Mount == Root) {
			continue
		}
		if t.Unified {
			if t.Controllers, err = words(filepath.Join(t.Mount, "cgroup.controllers")); err != nil {
				return Host{}, err
			}
		}
		h.Hierarchies = append(h.Hierarchies, t)
	}
	if len(h.Hierarchies) == 0 {
		return Host{}, fmt.Errorf("cgroup: no control group tree is mounted under %s", Root)
	}
	return h, nil
}

// Make makes the group below one that exists, and hands nothing down to it.
func (g Group) Make() error {
	for _, h := range g.Host.Hierarchies {
		if err := os.MkdirAll(g.dir(h), 0o755); err != nil {
			return fmt.Errorf("cgroup: create: %w", err)
		}
	}
	return nil
}

// Create makes the group. In version 2 it switches the controllers on in every group above, and returns the ones that
// were off in the root, so that Restore can switch them off again.
func (g Group) Create() ([]string, error) {
	if g.Host.Unified {
		return g.createUnified()
	}
	if err := g.Make(); err != nil {
		return nil, err
	}
	for _, h := range g.Host.Hierarchies {
		if h.controls("cpuset") {
			if err := g.inheritCPUs(h); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

// inheritCPUs fills cpuset.cpus and cpuset.mems from the root down: a version 1 cpuset is made empty, and an empty one
// admits no process.
func (g Group) inheritCPUs(h Hierarchy) error {
	dir := h.Mount
	for _, part := range strings.Split(g.Path, "/") {
		parent := dir
		dir = filepath.Join(dir, part)
		for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
			have, err := os.ReadFile(filepath.Join(dir, file))
			if err == nil && strings.TrimSpace(string(have)) != "" {
				continue
			}
			value, err := os.ReadFile(filepath.Join(parent, file))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, file), value, 0o644)
			}
			if err != nil {
				return fmt.Errorf("cgroup: inherit %s: %w", file, err)
			}
		}
	}
	return nil
}

func (g Group) createUnified() ([]string, error) {
	var changed []string
	dir := g.Host.Hierarchies[0].Mount
	for i, part := range strings.Split(g.Path, "/") {
		on, err := enable(dir)
		if err != nil {
			return changed, err
		}
		if i == 0 {
			changed = on
		}
		dir = filepath.Join(dir, part)
		if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
			return changed, fmt.Errorf("cgroup: create: %w", err)
		}
	}
	return changed, nil
}

// enable switches every available controller on for dir's children and returns those that were off.
func enable(dir string) ([]string, error) {
	available, err := words(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return nil, err
	}
	have, err := words(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return nil, err
	}
	off := slices.DeleteFunc(available, func(c string) bool { return slices.Contains(have, c) })
	if len(off) == 0 {
		return nil, nil
	}
	if err := mayHandDown(dir); err != nil {
		return nil, err
	}
	var on []string
	for _, c := range off {
		// A controller that refuses (cpu beside real-time processes) is one the kubelet does without.
		if os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+c), 0o644) == nil {
			on = append(on, c)
		}
	}
	return on, nil
}

// mayHandDown says why a group cannot give controllers to those below it: it holds processes. The kernel is no judge of
// that: it accepts cpu, cpuset and pids, by which the group becomes a threaded one, refuses memory with EOPNOTSUPP, and
// then admits no process to the groups below. The root of all is free to.
func mayHandDown(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, "cgroup.type")); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	pids, err := words(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	if len(pids) > 0 {
		return fmt.Errorf("cgroup: %s has processes of its own, so that controllers cannot be given to groups below it; "+
			"start this in a container with its own init, or on the host: %w", dir, unix.EBUSY)
	}
	return nil
}

func words(file string) ([]string, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("cgroup: %w", err)
	}
	return strings.Fields(string(b)), nil
}

// Weigh gives the group so many times the processor time of a single busy process beside it; by default it is once,
// however many processes are in it.
func (g Group) Weigh(times int) error {
	for _, h := range g.Host.Hierarchies {
		if !h.controls("cpu") {
			continue
		}
		file, value := "cpu.shares", 1024*times
		if h.Unified {
			file, value = "cpu.weight", 100*times
		}
		if err := os.WriteFile(filepath.Join(g.dir(h), file), []byte(strconv.Itoa(value)), 0o644); err != nil {
			return fmt.Errorf("cgroup: set weight: %w", err)
		}
	}
	return nil
}

// Delegate switches the controllers on for the group's children. The group itself must hold no process.
func (g Group) Delegate() error {
	if !g.Host.Unified {
		return nil
	}
	_, err := enable(g.unifiedDir())
	return err
}

// Restore switches controllers off in the root of the version 2 tree, where nobody else uses them.
func (h Host) Restore(controllers []string) {
	if !h.Unified {
		return
	}
	for _, c := range controllers { // busy means that another group came to use it: not ours to take away
		_ = os.WriteFile(filepath.Join(h.Hierarchies[0].Mount, "cgroup.subtree_control"), []byte("-"+c), 0o644)
	}
}

// Join moves a process into the group, in every tree.
func (g Group) Join(pid int) error {
	for _, h := range g.Host.Hierarchies {
		err := os.WriteFile(filepath.Join(g.dir(h), "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644)
		if err != nil {
			return fmt.Errorf("cgroup: join: %w", err)
		}
	}
	return nil
}

// Exists says whether the group is there in any tree.
func (g Group) Exists() bool {
	return slices.ContainsFunc(g.Host.Hierarchies, func(h Hierarchy) bool {
		_, err := os.Stat(g.dir(h))
		return err == nil
	})
}

// Processes lists the processes in the group and in those below it, in any tree.
func (g Group) Processes() ([]int, error) {
	seen := map[int]bool{}
	for _, h := range g.Host.Hierarchies {
		err := filepath.WalkDir(g.dir(h), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				return skipGone(err)
			}
			pids, err := words(filepath.Join(path, "cgroup.procs"))
			for _, p := range pids {
				if n, e := strconv.Atoi(p); e == nil && n > 0 {
					seen[n] = true
				}
			}
			return skipGone(err)
		})
		if err != nil {
			return nil, fmt.Errorf("cgroup: list processes: %w", err)
		}
	}
	out := make([]int, 0, len(seen))
	for p := range seen {
		out = append(out, p)
	}
	slices.Sort(out)
	return out, nil
}

// skipGone forgives what vanished while it was looked at, and threaded groups, which have no list of processes.
func skipGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) || errors.Is(err, unix.EOPNOTSUPP) {
		return nil
	}
	return err
}
