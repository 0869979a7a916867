//go:build unix

package nethttp

import (
	"errors"
	"syscall"
)

// isTransient reports an accept error that goes away by itself.
func isTransient(err error) bool {
	for _, e := range []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
