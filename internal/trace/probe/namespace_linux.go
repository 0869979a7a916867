package probe

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"strconv"

	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/trace/sockets"
)

// dialer makes the function that dials from the request's namespace, and one that lets go of it.
func dialer(proc string, r Request) (dialFunc, func(), error) {
	path := r.NetNS
	if path == "" && r.PodUID != "" {
		pids, err := sockets.PIDs(proc, r.PodUID)
		if err != nil {
			return nil, nil, fmt.Errorf("probe: %w", err)
		}
		if len(pids) == 0 {
			return nil, nil, fmt.Errorf("probe: %w", sockets.ErrNoProcess)
		}
		path = filepath.Join(proc, strconv.Itoa(pids[0]), "ns", "net")
	}
	if path == "" {
		return new(net.Dialer).DialContext, func() {}, nil
	}
	ns, err := netns.Open(path)
	if err != nil {
		return nil, nil, fmt.Errorf("probe: %w", err)
	}
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		var c net.Conn
		err := ns.Do(func() error {
			var err error
			c, err = new(net.Dialer).DialContext(ctx, network, address) // a literal address: the socket is made on this thread
			return err
		})
		return c, err
	}
	return dial, func() { _ = ns.Close() }, nil
}
