// Package nft programs the service proxy's plan into nf_tables: one table for each address family, a few large maps without
// verdicts, and one short chain for each way to choose (so many endpoints, this policy), shared by all Services. It owns
// the tables named here and nothing else; it sets no packet mark.
package nft

import knft "github.com/podway/podway/internal/kernel/nft"

// tableName is the name of the tables, ip and ip6. Whatever is in them is this package's, in whichever process.
const (
	tableName = "podway-proxy"
	comment   = "podway: from Service addresses to endpoints"
)

// The maps and sets. A Service port is known by its ClusterIP, protocol and port, written vip below.
const (
	services   = "services"     // address . proto . port -> class: what is done with packets to a frontend
	external   = "external"     // address . proto . port of other frontends -> vip
	endpoints  = "endpoints"    // vip . slot -> endpoint address . port
	clusterIPs = "cluster-ips"  // all ClusterIPs: their other ports are refused
	hairpin    = "hairpin"      // address . address of endpoints on this node
	sources    = "sources"      // address . proto . port . source: loadBalancerSourceRanges
	dispatch   = "dispatch"     // class -> chain that chooses
	masquerade = "masquerade"   // class -> chain that decides whether the endpoint sees the node's address
	affinity   = "affinity"     // client . vip -> endpoint; filled by packets
	sticky     = "sticky"       // vip . endpoint: what affinity may choose
	stickyHere = "sticky-local" // the same for endpoints on this node
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
