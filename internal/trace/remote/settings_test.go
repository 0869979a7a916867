package remote

import (
	"testing"

	"github.com/podway/podway/internal/hop/proxy"
)

func TestKubeProxysConfigurationSaysHowTheProxyIsJudged(t *testing.T) {
	var s Settings
	s.proxy("kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nmode: ipvs\nclusterCIDR: 10.244.0.0/16\niptables: {masqueradeAll: true}\n")
	if s.ProxyMode != "ipvs" || !s.Proxy.MasqueradeAll || s.Proxy.LocalPods.Mode != proxy.ByClusterCIDR || !s.Proxy.NodePorts.All {
		t.Errorf("%+v", s)
	}
	for _, text := range []string{"", "mode: ipvs\n", "kind: KubeProxyConfiguration\napiVersion: kubeproxy.config.k8s.io/v1alpha1\nnodePortAddresses: [here]\n"} {
		var s Settings
		if s.proxy(text); s.ProxyMode != "" || s.Proxy.NodePorts.All {
			t.Errorf("%q is taken for %+v", text, s)
		}
	}
}
