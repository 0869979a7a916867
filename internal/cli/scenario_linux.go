package cli

import (
	"net/netip"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/ingress"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/scenario"
)

// scenarioHops opens the hops of a node, or the ingress proxy of a Pod, as podway node and podway ingress do.
func scenarioHops(o scenario.NodeOptions) ([]hop.Hop, error) {
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
		ProxyMode: o.ProxyMode, Podnet: podnet.Options{ConfigPath: o.ConfigPath(), StoreDir: o.StoreDir()},
	}
	for _, a := range o.Addrs {
		opt.DNSListen = append(opt.DNSListen, netip.AddrPortFrom(a, scenario.DNSPort))
	}
	return agent.Hops(o.Hops(agent.HopNames()), opt)
}
