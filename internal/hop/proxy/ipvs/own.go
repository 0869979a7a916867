// Package ipvs programs the service proxy's plan into IP virtual servers, as kube-proxy's mode ipvs does: one virtual server
// for each address and port, the addresses on the device kube-ipvs0, and an nf_tables table for what IPVS cannot do:
// refuse, drop, guard and masquerade. It owns the device, the tables and the virtual servers named here, and nothing else.
package ipvs

import (
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// Device holds the addresses of all Services, so that the kernel delivers packets to them here, where IPVS is.
const Device = "kube-ipvs0"

// tableName is the name of the tables, ip and ip6. Whatever is in them is this package's, in whichever process.
const (
	tableName = "podway-ipvs"
	comment   = "podway: around the virtual servers of Services"
)

// Sets of kube-proxy's ipsets' names. A frontend is an address, protocol and port at which a Service answers; the sets
// hold those of all Services, with or without endpoints. Those with LOCAL in the name are for externalTrafficPolicy: Local
// and are apart from those without.
const (
	setIPs           = "KUBE-IPVS-IPS"    // the addresses on the device
	setLoopback      = "KUBE-LOOP-BACK"   // address . address of endpoints on this node
	setClusterIP     = "KUBE-CLUSTER-IP"  // frontends
	setExternal      = "KUBE-EXTERNAL-IP" // and so on
	setExternalLocal = "KUBE-EXTERNAL-IP-LOCAL"
	setLB            = "KUBE-LOAD-BALANCER"
	setLBLocal       = "KUBE-LOAD-BALANCER-LOCAL"
	setGuarded       = "KUBE-LOAD-BALANCER-FW"          // those with loadBalancerSourceRanges
	setSources       = "KUBE-LOAD-BALANCER-SOURCE-CIDR" // frontend . source
)

// setNodePort is the set of node ports of a protocol.
func setNodePort(proto uint8, local bool) string {
	name := "KUBE-NODE-PORT-"
	if local {
		name += "LOCAL-"
	}
	switch proto {
	case kipvs.UDP:
		return name + "UDP"
	case kipvs.SCTP:
		return name + "SCTP"
	}
	return name + "TCP"
}

// Sets of our own names.
const (
	setFrontends  = "frontends"    // frontends that lead to endpoints, for some client at least
	setNoEndpoint = "no-endpoint"  // frontends that are refused
	setNoneHere   = "none-here"    // frontends with a Local policy and no endpoint on this node
	mapInside     = "inside"       // frontend with externalTrafficPolicy: Local -> virtual server for clients on this node
	setExcluded   = "excluded"     // ranges whose virtual servers are others' (excludeCIDRs)
	setNode       = "node-servers" // virtual servers at the node's own addresses: by it a fresh process knows them for ours
)

// The chains.
const (
	prerouting  = "prerouting"
	output      = "output"
	postrouting = "postrouting"
	toServices  = "KUBE-SERVICES"
	reject      = "reject"
	masqAlways  = "masquerade"
	masqForeign = "masquerade-foreign" // unless the source is a Pod of this node
)

// The families, in the order of the tables.
var families = []knft.Family{knft.IPv4, knft.IPv6}

// familyOf is the index in families.
func familyOf(is4 bool) int {
	if is4 {
		return 0
	}
	return 1
}

// The kernel settings that are needed, by their paths below /proc/sys.
var settings = [][2]string{
	{"net/ipv4/vs/conntrack", "1"},                 // connection tracking sees what IPVS does: masquerading needs it
	{"net/ipv4/vs/expire_nodest_conn", "1"},        // a connection whose destination is gone ends at once
	{"net/ipv4/vs/expire_quiescent_template", "1"}, // a client leaves an endpoint that takes no new connections
}

// strictARP keeps the node from answering for the addresses on the device: only the node that announces one may.
var strictARP = [][2]string{{"net/ipv4/conf/all/arp_ignore", "1"}, {"net/ipv4/conf/all/arp_announce", "2"}}
