package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const poll = 5 * time.Millisecond // between looks at what the kernel does in its own time

// Kill ends every process of the group and of those below it, except the listed ones, and waits until they are gone.
// It looks again until there is none: a process may fork while the list is read.
func (g Group) Kill(ctx context.Context, except ...int) (int, error) {
	killed := map[int]bool{}
	for {
		pids, err := g.Processes()
		if err != nil {
			return len(killed), err
		}
		pids = slices.DeleteFunc(pids, func(p int) bool { return slices.Contains(except, p) })
		if len(pids) == 0 {
			return len(killed), nil
		}
		if g.Host.Unified && len(except) == 0 { // one write that no fork escapes; Linux 5.14
			_ = os.WriteFile(filepath.Join(g.unifiedDir(), "cgroup.kill"), []byte("1"), 0o644)
		}
		for _, p := range pids {
			killed[p] = true
			if err := unix.Kill(p, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
				return len(killed), fmt.Errorf("cgroup: kill %d: %w", p, err)
			}
		}
		if err := sleep(ctx, poll); err != nil {
			return len(killed), fmt.Errorf("cgroup: processes %v do not end: %w", pids, err)
		}
	}
}

// Remove removes the group and those below it. A group stays busy for a moment after its last process ended.
func (g Group) Remove(ctx context.Context) error {
	for {
		var last error
		for _, h := range g.Host.Hierarchies {
			if err := removeTree(g.dir(h)); err != nil {
				last = err
			}
		}
		if last == nil {
			return nil
		}
		if !errors.Is(last, unix.EBUSY) {
			return fmt.Errorf("cgroup: remove: %w", last)
		}
		if err := sleep(ctx, poll); err != nil {
			return fmt.Errorf("cgroup: remove: %w: %w", last, err)
		}
	}
}

// removeTree removes folders from the leaves up; the files in them are the kernel's.
func removeTree(dir string) error {
	var dirs []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			dirs = append(dirs, path)
		}
		return skipGone(err)
	})
	if err != nil {
		return err
	}
	var last error
	for _, d := range slices.Backward(dirs) {
		if err := unix.Rmdir(d); err != nil && !errors.Is(err, unix.ENOENT) {
			last = &os.PathError{Op: "rmdir", Path: d, Err: err}
		}
	}
	return last
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
