// Package netns makes, opens and enters network namespaces. It owns no device and no address in them.
package netns

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// init keeps the main goroutine on the main thread, so that no goroutine of onThread ever gets that thread: it would take
// the process's own /proc/self/ns/net with it, and the runtime cannot end it.
func init() { runtime.LockOSThread() }

// NS is an open network namespace. A namespace made by New vanishes, with all devices in it, when the NS is closed and
// nothing else holds it, also when the process is killed.
type NS struct{ f *os.File }

// New makes a network namespace without a name. Its loopback device is down.
func New() (*NS, error) {
	var ns *NS
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("netns: make: %w (root or CAP_SYS_ADMIN is needed)", err)
		}
		var err error
		ns, err = Current()
		return err
	})
	return ns, err
}

// Open opens the namespace at a path such as /proc/PID/ns/net or /run/netns/NAME.
func Open(path string) (*NS, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("netns: open: %w", err)
	}
	return &NS{f: f}, nil
}

// Current opens the namespace of the calling thread.
func Current() (*NS, error) { return Open("/proc/thread-self/ns/net") }

// Fd is the open descriptor, valid until Close.
func (n *NS) Fd() int { return int(n.f.Fd()) }

// Path names the namespace for other processes as long as this process lives and the NS is open.
func (n *NS) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.Fd()) }

// Close lets go of the namespace.
func (n *NS) Close() error { return n.f.Close() }

// Do runs f on a thread of its own in the namespace. Sockets and netlink handles that f opens stay in the namespace;
// goroutines that f starts do not run in it.
func (n *NS) Do(f func() error) error {
	return onThread(func() error {
		if err := unix.Setns(n.Fd(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("netns: enter: %w", err)
		}
		return f()
	})
}

// onThread runs f on a locked thread that ends with it: a thread whose namespace was changed is never used again.
func onThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked, so the runtime ends the thread
		done <- f()
	}()
	return <-done
}
