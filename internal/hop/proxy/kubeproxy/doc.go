// Package kubeproxy finds what a kube-proxy has programmed on this host, takes it out of force and puts it back. It knows
// kube-proxy's names, and touches nothing else: chains of kubelet (KUBE-FIREWALL, KUBE-KUBELET-CANARY, KUBE-IPTABLES-HINT),
// of CNI plugins (KUBE-HOSTPORTS) and of network policies (KUBE-NWPLCY-, KUBE-POD-FW-) stay.
package kubeproxy

import "strings"

// chains and prefixes are kube-proxy's in modes iptables and ipvs, of all versions.
var chains = []string{"KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ", "KUBE-MARK-DROP",
	"KUBE-FORWARD", "KUBE-PROXY-FIREWALL", "KUBE-PROXY-CANARY", "KUBE-LOAD-BALANCER", "KUBE-NODE-PORT", "KUBE-SOURCE-RANGES-FIREWALL",
	"KUBE-IPVS-FILTER", "KUBE-IPVS-OUT-FILTER"}

var prefixes = []string{"KUBE-SVC-", "KUBE-SVL-", "KUBE-SEP-", "KUBE-EXT-", "KUBE-FW-", "KUBE-XLB-"}

// owned reports whether a chain is kube-proxy's.
func owned(chain string) bool {
	for _, c := range chains {
		if c == chain {
			return true
		}
	}
	for _, p := range prefixes {
		if strings.HasPrefix(chain, p) {
			return true
		}
	}
	return false
}
