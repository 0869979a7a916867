// Command pause holds a pod's namespaces open: it waits, reaps what is handed to it, and leaves when told to.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		reap()
	}
}

// reap takes the exit status of every child that ended: with a shared process namespace, pause is their last parent.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if pid <= 0 || (err != nil && err != syscall.EINTR) {
			return
		}
	}
}
