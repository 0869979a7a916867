package agent

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/ebpf"
	"github.com/podway/podway/internal/hop/proxy/iptables"
	"github.com/podway/podway/internal/hop/proxy/ipvs"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/kernel/netns"
)

// backends are the ways to program the service proxy, by the names of kube-proxy's modes; the first is the default.
var backends = []struct {
	name string
	in   func(*netns.NS) (proxy.Backend, error)
}{
	{"nftables", func(ns *netns.NS) (proxy.Backend, error) { return nft.In(ns), nil }},
	{"iptables", func(ns *netns.NS) (proxy.Backend, error) { return iptables.In(ns), nil }},
	{"ipvs", func(ns *netns.NS) (proxy.Backend, error) { return ipvs.In(ns, slog.Default()), nil }},
	{"ebpf", func(ns *netns.NS) (proxy.Backend, error) { return ebpf.In(ns, ebpf.FromEnvironment()), nil }},
}

// ProxyModes are the names of the backends of the service proxy, the default first.
func ProxyModes() (out []string) {
	for _, b := range backends {
		out = append(out, b.name)
	}
	return out
}

// Backend opens the backend of a mode in a namespace; "" is the default mode and nil is this process's namespace.
func Backend(mode string, ns *netns.NS) (proxy.Backend, error) {
	if mode == "" {
		mode = backends[0].name
	}
	i := slices.Index(ProxyModes(), mode)
	if i < 0 {
		return nil, fmt.Errorf("agent: no proxy mode %q; there are %s", mode, strings.Join(ProxyModes(), ", "))
	}
	return backends[i].in(ns)
}

// others are the backends of all modes but one, to see what they left.
func others(mode string, ns *netns.NS) (out []proxy.Backend) {
	for _, b := range backends {
		if b.name == mode {
			continue
		}
		if x, err := b.in(ns); err == nil { // a host that cannot have the mode has nothing of it
			out = append(out, x)
		}
	}
	return out
}
