package podnet

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/podway/podway/internal/kernel/link"
)

// The names and marks by which a process knows what podnet made on a host, whichever process made it.
const (
	// RouteProtocol is the number of podway's routes in the main table: `ip route show proto 112`.
	RouteProtocol = 112
	// TunnelDevice is the VXLAN device to nodes of other networks.
	TunnelDevice = "podway0"
	// tunnelAlias stands on the device as a hint for people.
	tunnelAlias = "podway: Pods of nodes on other networks"
	// VethPrefix starts the name of the host's end of every Pod's link.
	VethPrefix = "pw"
	// unreachableMetric is that of the route for addresses of this node's range that no Pod has: any other route wins.
	unreachableMetric = 4096
	// Table is the nftables table, of family inet, with the masquerading.
	Table = "podway-podnet"
)

// Where things lie unless the Options or the CNI configuration say otherwise.
const (
	DefaultConfigPath = "/run/podway/podnet.json" // NodeConfig: the agent writes, the plugin reads
	DefaultStoreDir   = "/var/lib/cni/podway"     // the addresses of this node's Pods
	NetworkName       = "podway"                  // of the CNI network
	PluginName        = "podway-cni"              // of the executable that the container runtime starts
	ConflistName      = "10-podway.conflist"
)

// The tunnel's defaults. The port is the one that Kubernetes' overlays have always used on Linux, so that firewalls know
// it; the number of the virtual network is podway's own, so that flannel (1) and Calico (4096) may run beside it.
const (
	DefaultVNI  = 7749
	DefaultPort = 8472
)

// VethName is the name of the host's end of the link of an interface of a container: always the same, at most 15 bytes.
func VethName(container, ifname string) string {
	sum := sha256.Sum256([]byte(container + "/" + ifname))
	return VethPrefix + hex.EncodeToString(sum[:])[:13]
}

// isVeth reports whether a device is the host's end of a Pod's link.
func isVeth(l link.Link) bool {
	return l.Kind == link.KindVeth && isVethName(l.Name)
}

func isVethName(name string) bool {
	return len(name) == len(VethPrefix)+13 && strings.HasPrefix(name, VethPrefix)
}

// VethAlias stands on the host's end of a link that is complete: for people, and for a plugin that looks at what another
// one left.
func VethAlias(namespace, pod, ifname string) string {
	return strings.TrimSpace("podway: " + strings.Trim(namespace+"/"+pod, "/") + " " + ifname)
}

// MAC is a stable Ethernet address of a thing by its name: locally administered, and the same on every host, so that
// nobody needs to be told.
func MAC(kind, name string) link.MAC {
	sum := sha256.Sum256([]byte("podway " + kind + "\x00" + name))
	m := link.MAC(sum[:6])
	m[0] = m[0]&^1 | 2
	return m
}
