// Package iptables programs the service proxy's plan into the kernel's iptables tables, in the chains and with the rules
// that kube-proxy's mode of this name has, so that what operators know of those holds. It owns the chains named here in
// the tables nat and filter, and the rules in the kernel's own chains that jump to them; it lists and touches no other.
package iptables

import (
	"crypto/sha256"
	"encoding/base32"
	"strings"

	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// The chains that are always there, in the table nat, filter or both. All but clusterIPs,
// localnet and markForeign are kube-proxy's.
const (
	services    = "KUBE-SERVICES"          // nat: to a Service's chain; filter: ClusterIPs that lead nowhere
	nodePorts   = "KUBE-NODEPORTS"         // nat: by node port; filter: health checks are let in
	postrouting = "KUBE-POSTROUTING"       // nat: masquerades what is marked
	markMasq    = "KUBE-MARK-MASQ"         // nat: marks for masquerading
	external    = "KUBE-EXTERNAL-SERVICES" // filter: other addresses that lead nowhere
	forward     = "KUBE-FORWARD"           // filter: lets translated connections pass
	firewall    = "KUBE-PROXY-FIREWALL"    // filter: load balancer addresses that the sender may not use
	markForeign = "KUBE-MARK-FOREIGN"      // nat: marks what is not from a Pod of this node; where one rule cannot say it
	canary      = "KUBE-PROXY-CANARY"      // empty; gone when somebody emptied the table
	clusterIPs  = "KUBE-CLUSTER-IPS"       // filter: ports that a ClusterIP does not have
	localnet    = "KUBE-PROXY-LOCALNET"    // filter: nobody but the host itself reaches its loopback addresses
)

// The beginnings of the names of chains for one port of a Service; 16 characters of a hash follow.
const (
	clusterChain  = "KUBE-SVC-" // choice among the endpoints of policy Cluster
	localChain    = "KUBE-SVL-" // choice among those of policy Local
	externalChain = "KUBE-EXT-" // what is done with traffic to an external address
	firewallChain = "KUBE-FW-"  // who may send to a load balancer address
	endpointChain = "KUBE-SEP-" // one endpoint
)

var prefixes = []string{clusterChain, localChain, externalChain, firewallChain, endpointChain}

// tables are those that have chains of ours, in the order in which they are written: translating begins before refusing
// ends, and what is no more translated is refused by its ClusterIP at least.
var tables = []string{kipt.NAT, kipt.Filter}

// owned reports whether a chain is this package's, in whichever process it was made.
func owned(chain string) bool {
	if !strings.HasPrefix(chain, "KUBE-") {
		return false
	}
	switch chain {
	case services, nodePorts, postrouting, markMasq, external, forward, firewall, canary, clusterIPs, localnet, markForeign:
		return true
	}
	for _, p := range prefixes {
		if strings.HasPrefix(chain, p) {
			return true
		}
	}
	return false
}

// rank orders chains so that none jumps to one of higher rank; within a rank there are no jumps.
func rank(chain string) int {
	switch {
	case strings.HasPrefix(chain, endpointChain), chain == markForeign:
		return 1
	case strings.HasPrefix(chain, clusterChain), strings.HasPrefix(chain, localChain):
		return 2
	case strings.HasPrefix(chain, externalChain):
		return 3
	case strings.HasPrefix(chain, firewallChain):
		return 4
	case chain == nodePorts, chain == clusterIPs:
		return 5
	case chain == services, chain == external, chain == forward, chain == postrouting, chain == firewall, chain == localnet:
		return 6
	case strings.HasPrefix(chain, "KUBE-"):
		return 0 // markMasq, canary
	}
	return 7 // the kernel's own
}

// hash is what kube-proxy names chains with: the first 16 characters of base32 of sha256 of the parts. It is appended to
// the prefix.
func hash(prefix string, room []byte, parts ...string) (string, []byte) {
	room = room[:0]
	for _, p := range parts {
		room = append(room, p...)
	}
	sum := sha256.Sum256(room)
	var name [28]byte
	n := copy(name[:], prefix)
	var text [16]byte
	base32.StdEncoding.Encode(text[:], sum[:10])
	n += copy(name[n:], text[:])
	return string(name[:n]), room
}
