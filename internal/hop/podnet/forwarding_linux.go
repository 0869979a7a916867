package podnet

import (
	"errors"
	"io/fs"

	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// AllowForwarding lets the host forward packets, for both families where the kernel has them. It is for the start of a
// node, in a container that may write kernel settings; the agent itself only checks them.
func AllowForwarding() error {
	k, err := route.Open(nil)
	if err != nil {
		return err
	}
	defer k.Close()
	routes, err := k.Routes()
	if err != nil {
		return err
	}
	var errs []error
	for _, is4 := range []bool{true, false} {
		if err := allowForwarding(sysctl.Open(nil), is4, routes); err != nil && (is4 || !errors.Is(err, fs.ErrNotExist)) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
