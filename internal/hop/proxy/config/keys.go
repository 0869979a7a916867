package config

import "strings"

// Key is one key of a KubeProxyConfiguration and what becomes of it.
type Key struct {
	Path string // "conntrack.min"
	Does string // what it does in podway, or why nothing
	// Unused keys are accepted and change nothing.
	Unused bool
}

func used(path, does string) Key  { return Key{Path: path, Does: does} }
func unused(path, why string) Key { return Key{Path: path, Does: why, Unused: true} }

const (
	windows  = "Windows only"
	atOnce   = "a change is applied at once, and only what changed"
	notTimed = "drift is noticed within a second, not by a timer; 2 x syncPeriod is how late a change may be before /healthz says 503"
	log1     = "the log has one stream and no buffer"
)

// Keys are all keys, in the order in which Kubernetes' documentation of the type has them.
var Keys = []Key{
	used("featureGates", "AllowServiceExternalIPs and KubeProxyNFTablesLocalhostNodePorts count; others are of kube-proxy's own code"),
	used("clientConnection.kubeconfig", "the API server; without it the Pod's service account"),
	used("clientConnection.acceptContentTypes", "as in kube-proxy"),
	used("clientConnection.contentType", "as in kube-proxy"),
	used("clientConnection.qps", "as in kube-proxy"),
	used("clientConnection.burst", "as in kube-proxy"),
	used("logging.format", "text or json"),
	unused("logging.flushFrequency", log1),
	used("logging.verbosity", "4 and more: debug"),
	unused("logging.vmodule", "kube-proxy's own source files"),
	unused("logging.options", log1),
	used("hostnameOverride", "the Node's name; without it $NODE_NAME or the host's name"),
	used("bindAddress", "the node's primary address, when it is not 0.0.0.0 or ::"),
	used("healthzBindAddress", "/healthz and /livez"),
	used("metricsBindAddress", "/metrics, /proxyMode, /configz, /healthz and, with enableProfiling, /debug/pprof"),
	used("bindAddressHardFail", "ends when one of the two cannot be opened; otherwise they are tried again"),
	used("enableProfiling", "as in kube-proxy"),
	unused("showHiddenMetricsForVersion", "no metric is hidden"),
	used("mode", "nftables (also when it is empty), iptables, ipvs, ebpf"),
	used("iptables.masqueradeBit", "modes iptables and ipvs"),
	used("iptables.masqueradeAll", "modes iptables and ipvs, and when mode is empty"),
	used("iptables.localhostNodePorts", "mode iptables"),
	used("iptables.syncPeriod", notTimed),
	unused("iptables.minSyncPeriod", atOnce),
	used("ipvs.syncPeriod", notTimed),
	unused("ipvs.minSyncPeriod", atOnce),
	used("ipvs.scheduler", "mode ipvs"),
	used("ipvs.excludeCIDRs", "mode ipvs"),
	used("ipvs.strictARP", "mode ipvs"),
	used("ipvs.tcpTimeout", "mode ipvs"),
	used("ipvs.tcpFinTimeout", "mode ipvs"),
	used("ipvs.udpTimeout", "mode ipvs"),
	unused("nftables.masqueradeBit", "masquerading needs no mark"),
	used("nftables.masqueradeAll", "modes nftables and ebpf, and when mode is empty"),
	used("nftables.syncPeriod", notTimed),
	unused("nftables.minSyncPeriod", atOnce),
	unused("winkernel", windows),
	used("detectLocalMode", "ClusterCIDR (also when it is empty), NodeCIDR, BridgeInterface, InterfaceNamePrefix"),
	used("detectLocal.bridgeInterface", "as in kube-proxy"),
	used("detectLocal.interfaceNamePrefix", "as in kube-proxy"),
	used("clusterCIDR", "as in kube-proxy"),
	used("nodePortAddresses", "ranges, primary, localhost, all; empty: primary in modes nftables and ebpf, all in the others"),
	used("oomScoreAdj", "as in kube-proxy"),
	used("conntrack.maxPerCore", "as in kube-proxy: nf_conntrack_max is raised, never lowered"),
	used("conntrack.min", "as in kube-proxy"),
	used("conntrack.tcpEstablishedTimeout", "as in kube-proxy"),
	used("conntrack.tcpCloseWaitTimeout", "as in kube-proxy"),
	unused("conntrack.tcpBeLiberal", "always on: without it long transfers break under packet loss"),
	used("conntrack.udpTimeout", "as in kube-proxy"),
	used("conntrack.udpStreamTimeout", "as in kube-proxy"),
	unused("configSyncPeriod", "watches need no resynchronisation"),
	unused("portRange", "unused in kube-proxy too"),
	unused("windowsRunAsService", windows),
}

// Unused returns those of the keys given, or of the keys below them, that change nothing.
func Unused(paths []string) (out []Key) {
	for _, p := range paths {
		if k := keyOf(p); k != nil && k.Unused {
			out = append(out, Key{Path: p, Does: k.Does, Unused: true})
		}
	}
	return out
}

// gates are the feature gates that count.
var gates = []string{"AllowServiceExternalIPs", "KubeProxyNFTablesLocalhostNodePorts"}

func keyOf(path string) *Key {
	if gate, ok := strings.CutPrefix(path, "featureGates."); ok {
		for _, g := range gates {
			if g == gate {
				return nil
			}
		}
		return &Key{Does: "a feature of kube-proxy's own code", Unused: true}
	}
	for i := range Keys {
		if k := &Keys[i]; path == k.Path || strings.HasPrefix(path, k.Path+".") {
			return k
		}
	}
	return nil
}
