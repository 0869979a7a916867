package podnet

import (
	"errors"
	"os"

	"github.com/podway/podway/internal/kernel/sysctl"
)

// AllowForwarding lets the host forward packets, for both families where the kernel has them. It is for the start of a
// node, in a container that may write kernel settings; the agent itself only checks them.
func AllowForwarding() error {
	k := sysctl.Open(nil)
	var errs []error
	for _, is4 := range []bool{true, false} {
		if err := k.Set(forwardKey(is4), "1"); err != nil && (is4 || !errors.Is(err, os.ErrNotExist)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
