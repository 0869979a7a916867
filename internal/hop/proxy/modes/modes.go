// Package modes has a backend of each mode of the service proxy without a host, for whoever judges rules and does not write
// them: it renders, and says what the mode cannot do. It owns nothing; package agent opens those that write.
package modes

import (
	"cmp"
	"slices"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/ebpf"
	"github.com/podway/podway/internal/hop/proxy/iptables"
	"github.com/podway/podway/internal/hop/proxy/ipvs"
	"github.com/podway/podway/internal/hop/proxy/nft"
)

// all are the backends, the default mode's first. None has a door to a host.
var all = []proxy.Backend{
	nft.New(nil), iptables.New(nil, nil), ipvs.New(ipvs.Doors{}, nil), ebpf.New(ebpf.Host{Packets: nft.New(nil)}),
}

// Names are the names of all modes, those of kube-proxy and ebpf; the first is the default.
func Names() (out []string) {
	for _, b := range all {
		out = append(out, b.Name())
	}
	return out
}

// Backend is that of a mode, nil for an unknown one; "" is the default mode.
func Backend(name string) proxy.Backend {
	i := slices.Index(Names(), cmp.Or(name, all[0].Name()))
	if i < 0 {
		return nil
	}
	return all[i]
}
