package remote

import (
	"context"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/config"
)

// Settings is what the cluster's objects say of the cluster's own addresses and names.
type Settings struct {
	Domain       string         // "" = not known
	ServiceCIDRs []netip.Prefix // ranges of ClusterIPs
	ClusterCIDRs []netip.Prefix // ranges of Pods, known only where podway runs
	ProxyMode    string         // of the service proxy; "" = not known, which is taken for the default one
	Proxy        proxy.Settings // likewise
}

// Settings reads podway's ConfigMap, or, where podway is not installed, the ServiceCIDR objects and kube-proxy's ConfigMap,
// which podway's service proxy in kube-proxy's place has too. What may not be read, or
// is not there, stays unknown.
func (c *Cluster) Settings(ctx context.Context) Settings {
	var s Settings
	m, err := c.Clients.Typed.CoreV1().ConfigMaps("kube-system").Get(ctx, "podway", metav1.GetOptions{})
	if err == nil {
		s.Domain = m.Data["PODWAY_CLUSTER_DOMAIN"]
		s.ServiceCIDRs = prefixes(strings.Split(m.Data["PODWAY_SERVICE_CIDRS"], ","))
		s.ProxyMode = m.Data["PODWAY_PROXY_MODE"]
		s.ClusterCIDRs = prefixes(strings.Split(m.Data["PODWAY_CLUSTER_CIDRS"], ","))
		return s
	}
	if m, err := c.Clients.Typed.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{}); err == nil {
		s.proxy(m.Data["config.conf"])
	}
	list, err := c.Clients.Typed.NetworkingV1().ServiceCIDRs().List(ctx, metav1.ListOptions{})
	if err != nil {
		return s
	}
	for _, i := range list.Items {
		s.ServiceCIDRs = append(s.ServiceCIDRs, prefixes(i.Spec.CIDRs)...)
	}
	return s
}

// proxy reads kube-proxy's configuration; one that cannot be read is not known.
func (s *Settings) proxy(text string) {
	f, err := config.Load("config.conf", []byte(text))
	if err != nil {
		return
	}
	config.Fill(&f.KubeProxyConfiguration)
	if config.Check(&f.KubeProxyConfiguration) != nil {
		return
	}
	c := config.Resolve(&f.KubeProxyConfiguration)
	s.ProxyMode, s.Proxy = c.Mode, c.Settings
}

func prefixes(all []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range all {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			out = append(out, p)
		}
	}
	return out
}
