// Package scenarionode opens the hops of one node of a scenario, or those of an ingress proxy's Pod, as `podway node` and
// `podway ingress` open them. It owns nothing else: what is done with them is package scenario's affair.
package scenarionode

import (
	"net/netip"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/ingress"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/scenario"
)

// Hops opens them in the network namespace of this process.
func Hops(o scenario.NodeOptions) ([]hop.Hop, error) {
	if o.Ingress {
		all := netip.IPv4Unspecified()
		h, err := ingress.New(ingress.Options{
			HTTP:  []netip.AddrPort{netip.AddrPortFrom(all, scenario.IngressHTTP)},
			HTTPS: []netip.AddrPort{netip.AddrPortFrom(all, scenario.IngressHTTPS)},
		})
		return []hop.Hop{h}, err
	}
	opt := agent.Options{
		Node: o.Node, ClusterCIDRs: scenario.ClusterCIDRs, ServiceCIDRs: scenario.ServiceCIDRs, ResolvConf: o.ResolvConf(),
		ProxyMode: o.ProxyMode, Proxy: o.Proxy, Podnet: podnet.Options{ConfigPath: o.ConfigPath(), StoreDir: o.StoreDir()},
	}
	var err error
	if opt.DNSConfig, err = scenario.DNSConfig(o.DNS); err != nil {
		return nil, err
	}
	if o.Netns != "" {
		ns, err := netns.Open(o.Netns)
		if err != nil {
			return nil, err
		}
		opt.NS = ns
	}
	for _, a := range o.Addrs {
		opt.DNSListen = append(opt.DNSListen, netip.AddrPortFrom(a, scenario.DNSPort))
	}
	return agent.Hops(o.Hops(agent.HopNames()), opt)
}
