package remote

import (
	"context"
	"net/netip"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Settings is what the cluster's objects say of the cluster's own addresses and names.
type Settings struct {
	Domain       string         // "" = not known
	ServiceCIDRs []netip.Prefix // ranges of ClusterIPs
	ClusterCIDRs []netip.Prefix // ranges of Pods, known only where podway runs
}

// Settings reads podway's ConfigMap, or, where podway is not installed, the ServiceCIDR objects. What may not be read, or
// is not there, stays unknown.
func (c *Cluster) Settings(ctx context.Context) Settings {
	var s Settings
	m, err := c.Clients.Typed.CoreV1().ConfigMaps("kube-system").Get(ctx, "podway", metav1.GetOptions{})
	if err == nil {
		s.Domain = m.Data["PODWAY_CLUSTER_DOMAIN"]
		s.ServiceCIDRs = prefixes(strings.Split(m.Data["PODWAY_SERVICE_CIDRS"], ","))
		s.ClusterCIDRs = prefixes(strings.Split(m.Data["PODWAY_CLUSTER_CIDRS"], ","))
		return s
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

func prefixes(all []string) []netip.Prefix {
	var out []netip.Prefix
	for _, s := range all {
		if p, err := netip.ParsePrefix(strings.TrimSpace(s)); err == nil {
			out = append(out, p)
		}
	}
	return out
}
