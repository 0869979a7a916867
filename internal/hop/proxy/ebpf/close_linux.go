package ebpf

import (
	"context"
	"os"
	"path/filepath"

	"github.com/podway/podway/internal/kernel/bpf"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/sockdiag"
)

// namespaces are the folders in which container runtimes keep the network namespaces of Pods: as a container sees the
// host's, then as the host does.
var namespaces = []string{"/host/run/netns", "/run/netns", "/host/run/docker/netns", "/run/docker/netns"}

// closer ends UDP sockets in the node's namespace and in those of the folders.
type closer struct {
	node    *netns.NS
	folders []string
}

// close implements Host.Close. Namespaces that cannot be opened are gone, with their sockets.
func (c closer) close(ctx context.Context, sockets map[uint64][]uint64) (int, error) {
	left := len(sockets)
	n, err := c.in(c.node, sockets, &left)
	for _, dir := range c.folders {
		entries, _ := os.ReadDir(dir) // most nodes have one of them
		for _, e := range entries {
			if left == 0 || err != nil || ctx.Err() != nil {
				return n, err
			}
			ns, gone := netns.Open(filepath.Join(dir, e.Name()))
			if gone != nil {
				continue
			}
			var more int
			more, err = c.in(ns, sockets, &left)
			n += more
			ns.Close()
		}
	}
	return n, err
}

// in ends the sockets of one namespace.
func (closer) in(ns *netns.NS, sockets map[uint64][]uint64, left *int) (int, error) {
	cookie, err := bpf.Netns(ns)
	if err != nil {
		return 0, err
	}
	mine, ok := sockets[cookie]
	if !ok {
		return 0, nil
	}
	*left--
	return sockdiag.DestroyUDP(ns, mine)
}
