package upstream

import (
	"bufio"
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
)

// port is where DNS servers listen.
const port = 53

// nameservers reads the nameserver lines of a resolv.conf (resolv.conf(5)); lines that it cannot read count for nothing.
func nameservers(r io.Reader) []netip.AddrPort {
	var out []netip.AddrPort
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if a, err := netip.ParseAddr(fields[1]); err == nil && !slices.Contains(out, netip.AddrPortFrom(a.Unmap(), port)) {
			out = append(out, netip.AddrPortFrom(a.Unmap(), port))
		}
	}
	return out
}

func readResolvConf(path string) ([]netip.AddrPort, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("upstream: %w", err)
	}
	defer f.Close()
	return nameservers(f), nil
}
