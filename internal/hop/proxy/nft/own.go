// Package nft programs the service proxy's plan into nf_tables: one table for each address family, a few large maps without
// verdicts, and one short chain for each way to choose (so many endpoints, this policy), shared by all Services. It owns the
// tables named here and nothing else. The packet's mark is used within a rule and put back before its end.
package nft

import knft "github.com/podway/podway/internal/kernel/nft"

// tableName is the name of the tables, ip and ip6. Whatever is in them is this package's, in whichever process.
const (
	tableName = "podway-proxy"
	comment   = "podway: from Service addresses to endpoints"
)

// The maps and sets. A frontend is an address, protocol and port at which a Service answers; that of a NodePort has the
// unspecified address, whatever addresses the node has.
const (
	services   = "services"    // frontend -> word of its class: what is done with packets to it
	endpoints  = "endpoints"   // frontend . slot -> endpoint address . port
	clusterIPs = "cluster-ips" // all ClusterIPs: their other ports are refused
	hairpin    = "hairpin"     // address . address of endpoints on this node
	sources    = "sources"     // frontend . source: loadBalancerSourceRanges
	nodeAddrs  = "node-addrs"  // addresses of the node that answer to NodePorts
	dispatch   = "dispatch"    // class -> chain that chooses an endpoint
	masquerade = "masquerade"  // class -> chain that decides whether the endpoint sees the node's address

	// For session affinity; only there while a Service wants it.
	owners      = "owners"       // frontend -> number of the Service, or of some of its ports
	affinity    = "affinity"     // client . owner -> token of the client's endpoint; filled by packets
	tokens      = "tokens"       // frontend . slot -> token
	sticky      = "sticky"       // frontend . token -> endpoint address . port
	stickyLocal = "sticky-local" // the same of endpoints on this node alone
)

// The chains that are always there. Chains of classes have names such as lb-3 (see class.chain).
const (
	prerouting  = "prerouting"
	output      = "output"
	postrouting = "postrouting"
	toServices  = "services"
	reject      = "reject"
	drop        = "drop"
	masqAlways  = "masquerade"
	masqForeign = "masquerade-foreign" // unless the source is a Pod of this node
	masqOwn     = "masquerade-own"     // if the source is this node
)

// localSlots is where the slots of a port's Local endpoints begin; those of Cluster begin at 0.
const localSlots = 1 << 16

// affinitySize bounds how many clients are remembered; the rest are balanced anew with each connection. The kernel makes
// room for the table at once: 8 bytes for each.
const affinitySize = 1 << 18

// The families, in the order of the tables.
var families = []knft.Family{knft.IPv4, knft.IPv6}
