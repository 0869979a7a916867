// Package proxytest holds the configurations of the service proxy that every backend is tested with, beside the clusters
// of hoptest, and how hoptest's suite is run for a mode. It owns no test.
package proxytest

import (
	"net/netip"

	"github.com/podway/podway/internal/hop/proxy"
)

// ServiceCIDRs are the ranges of ClusterIPs in hoptest's clusters.
var ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}

// node and hostAddrs are hoptest's node-a and what it has on its devices beside the addresses of its Node object.
const node = "node-a"

var hostAddrs = []netip.Addr{netip.MustParseAddr("172.17.0.1"), netip.MustParseAddr("fd00:17::1")}

// Named is a configuration and what it is about.
type Named struct {
	Name string
	proxy.Config
}

// Default is the configuration of a node that nobody configured.
func Default() proxy.Config { return proxy.Config{Node: node, ServiceCIDRs: ServiceCIDRs} }

// Configs are configurations of node-a that every backend must hold for, the default one first.
func Configs() []Named {
	with := func(name string, edit func(*proxy.Settings)) Named {
		c := Default()
		c.Host = func() []netip.Addr { return hostAddrs }
		edit(&c.Settings)
		return Named{name, c}
	}
	return []Named{
		{"the default", Default()},
		with("node ports at every address", func(s *proxy.Settings) { s.NodePorts.All = true }),
		with("node ports in a range of one family", func(s *proxy.Settings) {
			s.NodePorts.In = []netip.Prefix{netip.MustParsePrefix("172.16.0.0/12")}
		}),
		with("Pods by the cluster's ranges", func(s *proxy.Settings) {
			s.LocalPods = proxy.LocalPods{Mode: proxy.ByClusterCIDR, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10::/32")}}
		}),
		with("Pods by their bridge", func(s *proxy.Settings) { s.LocalPods = proxy.LocalPods{Mode: proxy.ByBridge, Interface: "cni0"} }),
		with("Pods by the names of their devices", func(s *proxy.Settings) {
			s.LocalPods = proxy.LocalPods{Mode: proxy.ByInterfacePrefix, Interface: "veth"}
		}),
		with("every client masqueraded", func(s *proxy.Settings) { s.MasqueradeAll = true }),
		with("no external addresses", func(s *proxy.Settings) { s.NoExternalIPs = true }),
		with("another proxy's Services", func(s *proxy.Settings) { s.ProxyName = "mesh" }),
	}
}
