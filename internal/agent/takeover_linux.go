package agent

import (
	"context"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/kubeproxy"
	"github.com/podway/podway/internal/kernel/netns"
)

// KubeProxy is what a kube-proxy made on a host in one of its modes.
type KubeProxy interface {
	proxy.Backend
	proxy.Owner
	// Objects names what there is, one line each.
	Objects(ctx context.Context) ([]string, error)
	// PutBack puts in force what Remove took out, and reports whether there was anything. Forget deletes it for good.
	PutBack(ctx context.Context) (bool, error)
	Forget(ctx context.Context) error
}

// KubeProxies are those of all modes that can be taken over. What is taken out is kept in dir.
func KubeProxies(ns *netns.NS, dir string) []KubeProxy {
	return []KubeProxy{kubeproxy.NFTables(ns), kubeproxy.IPTables(ns, dir), kubeproxy.IPVS(ns, dir)}
}
