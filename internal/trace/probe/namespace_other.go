//go:build !linux

package probe

import (
	"errors"
	"fmt"
	"net"
)

// dialer dials from this process's own namespace: other systems have no other.
func dialer(_ string, r Request) (dialFunc, func(), error) {
	if r.NetNS != "" || r.PodUID != "" {
		return nil, nil, fmt.Errorf("probe: network namespaces need Linux: %w", errors.ErrUnsupported)
	}
	return new(net.Dialer).DialContext, func() {}, nil
}
