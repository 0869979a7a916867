package lab

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

const (
	politeTime = 8 * time.Second  // for the supervisor to take everything down in order
	forceTime  = 30 * time.Second // for the kernel to let go of what was killed
)

// Down ends everything of the lab in dir, however it was left: its processes are found by their cgroup, and namespaces,
// mounts and devices end with them. The data stays, unless remove is set.
func Down(ctx context.Context, dir string, remove bool, out io.Writer) error {
	began := time.Now()
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if os.Geteuid() != 0 {
		return errors.New("lab: not root; try: sudo podway down")
	}
	polite, unlock := claim(ctx, dir)
	defer unlock()
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	group := host.Group(spec.CgroupName(dir))
	found := group.Exists()
	forceCtx, cancel := context.WithTimeout(ctx, forceTime)
	defer cancel()
	killed, err := group.Kill(forceCtx, os.Getpid())
	if err != nil {
		return err
	}
	if err := group.Remove(forceCtx); err != nil {
		return err
	}
	if err := forget(host, dir); err != nil {
		return err
	}
	switch {
	case !found:
		fmt.Fprintf(out, "nothing runs for %s\n", dir)
	case polite:
		fmt.Fprintf(out, "cluster stopped in %.2f s\n", time.Since(began).Seconds())
	default:
		fmt.Fprintf(out, "no supervisor answered: ended %d processes by their cgroup in %.2f s\n", killed, time.Since(began).Seconds())
	}
	if !remove {
		return nil
	}
	return removeData(dir, out)
}

// claim ends the supervisor in order and says whether it did. When none answers, it makes sure that none is about to start:
// a `podway up` that has begun a moment ago holds its lock, and a supervisor its own. What holds one and does not answer in
// time hangs, and is ended without being asked.
func claim(ctx context.Context, dir string) (polite bool, unlock func()) {
	ctx, cancel := context.WithTimeout(ctx, politeTime)
	defer cancel()
	for {
		if stopSupervisor(ctx, dir) {
			return true, func() {}
		}
		if letStart, free := tryLock(filepath.Join(dir, upLock)); free {
			if letGo, free := tryLock(filepath.Join(dir, supervisor.LockFile)); free {
				letGo()
				return false, letStart
			}
			letStart()
		}
		if ctx.Err() != nil {
			return false, func() {}
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// tryLock takes a lock unless somebody holds it; where there is no file nobody does.
func tryLock(path string) (unlock func(), free bool) {
	fd, err := unix.Open(path, unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}, true
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		return nil, false
	}
	return func() { unix.Close(fd) }, true
}

// stopSupervisor asks the supervisor to end everything in order, and says whether it did.
func stopSupervisor(ctx context.Context, dir string) bool {
	ctx, cancel := context.WithTimeout(ctx, politeTime)
	defer cancel()
	r := supervisor.Connect(dir)
	if err := r.Stop(ctx); err != nil {
		return false
	}
	for ctx.Err() == nil {
		if _, err := r.Status(ctx, -1); errors.Is(err, supervisor.ErrGone) {
			return true
		}
		time.Sleep(10 * time.Millisecond)
	}
	return false
}

// forget removes what only says that something runs, and gives the root cgroup its former controllers.
func forget(host cgroup.Host, dir string) error {
	if b, err := os.ReadFile(filepath.Join(dir, supervisor.ControllersFile)); err == nil {
		var on []string
		if json.Unmarshal(b, &on) == nil {
			host.Restore(on)
		}
	}
	for _, f := range []string{spec.SocketName, supervisor.ControllersFile, supervisor.LockFile} {
		if err := os.Remove(filepath.Join(dir, f)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("lab: %w", err)
		}
	}
	return nil
}

// removeData deletes the lab's folder, if it is one.
func removeData(dir string, out io.Writer) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	if _, err := spec.Load(dir); err != nil && len(entries) > 0 && !onlyLock(entries) {
		return fmt.Errorf("lab: %s is not deleted: it does not look like a lab's folder: %w", dir, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("lab: delete data: %w", err)
	}
	fmt.Fprintf(out, "deleted %s\n", dir)
	return nil
}

func onlyLock(entries []os.DirEntry) bool { return len(entries) == 1 && entries[0].Name() == upLock }
