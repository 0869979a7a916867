// Package network builds the lab's network out of network namespaces: the control plane's with the bridge that is the
// nodes' network, one per node, `outside` (a host beside the nodes) and `client` (one that is routed to through
// `outside`). Nothing is made in the host's own namespace, and no namespace has a name on disk: all of it ends with
// the processes that hold it. It does not know what runs in them.
package network

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Namespace is an open network namespace. It lives as long as it is open or has a process in it.
type Namespace struct{ file *os.File }

// New makes a network namespace with its loopback up.
func New() (*Namespace, error) {
	var n *Namespace
	err := onOwnThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("network: make namespace: %w", err)
		}
		f, err := os.Open(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()))
		if err != nil {
			return fmt.Errorf("network: make namespace: %w", err)
		}
		n = &Namespace{file: f}
		return loopbackUp()
	})
	return n, err
}

// FD is the namespace's descriptor, for setns(2) and netlink.
func (n *Namespace) FD() int { return int(n.file.Fd()) }

// Path names the namespace for other processes of this machine, as long as this one lives.
func (n *Namespace) Path() string { return fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), n.FD()) }

// Close lets go of the namespace.
func (n *Namespace) Close() error { return n.file.Close() }

// Do runs f on a thread inside the namespace. What f starts on that thread (sockets, processes) belongs to it;
// goroutines that f starts do not.
func (n *Namespace) Do(f func() error) error {
	return onOwnThread(func() error {
		if err := unix.Setns(n.FD(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("network: enter namespace: %w", err)
		}
		return f()
	})
}

// onOwnThread runs f on a thread that nobody uses afterwards: a thread that changed its namespaces must not go back to
// the scheduler, so it stays locked and ends with its goroutine.
func onOwnThread(f func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- f()
	}()
	return <-done
}
