package config

import (
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/kube-proxy/config/v1alpha1"

	"github.com/podway/podway/internal/hop/proxy"
)

// Config is what a configuration means to podway.
type Config struct {
	Mode     string // one of Modes
	Settings proxy.Settings
	Tracking proxy.Tracking

	Node    string // hostnameOverride in lower case; "" = the host's name
	Client  Client
	Healthz string // where /healthz is served; "" = nowhere
	Metrics string // where /metrics is; "" = nowhere
	// HealthTimeout is how old the oldest change may be that is not in the rules yet.
	HealthTimeout time.Duration
	HardFail      bool // a port that cannot be opened ends the process
	Profiling     bool
	OOMScore      int
	LogFormat     string
	Verbosity     int
	// Remarks are what the operator should know of the configuration, one sentence each.
	Remarks []string
}

// Client is how the API server is spoken to.
type Client struct {
	Kubeconfig, ContentType, AcceptContentTypes string
	QPS                                         float32
	Burst                                       int
}

// Resolve says what a checked configuration means. Its defaults must be filled in.
func Resolve(c *v1alpha1.KubeProxyConfiguration) *Config {
	out := &Config{
		Mode: string(c.Mode), Tracking: tracking(&c.Conntrack), Node: strings.ToLower(strings.TrimSpace(c.HostnameOverride)),
		Client: Client{c.ClientConnection.Kubeconfig, c.ClientConnection.ContentType, c.ClientConnection.AcceptContentTypes,
			c.ClientConnection.QPS, int(c.ClientConnection.Burst)},
		Healthz: c.HealthzBindAddress, Metrics: c.MetricsBindAddress, HardFail: c.BindAddressHardFail, Profiling: c.EnableProfiling,
		OOMScore: int(*c.OOMScoreAdj), LogFormat: c.Logging.Format, Verbosity: int(c.Logging.Verbosity),
	}
	if out.Mode == "" {
		out.Mode = Modes[0]
	}
	_, sync, _ := periods(c)
	out.HealthTimeout = 2 * sync
	out.Settings = proxy.Settings{
		NodePorts: nodePorts(c, out.Mode), LocalPods: localPods(c), MasqueradeAll: masqueradeAll(c),
		MasqueradeMark: 1 << *c.IPTables.MasqueradeBit, NoExternalIPs: noExternalIPs(c),
	}
	if a, err := netip.ParseAddr(c.BindAddress); err == nil && !a.IsUnspecified() {
		out.Settings.NodeAddr = a.Unmap()
	}
	if out.Mode == "ipvs" {
		out.Settings.IPVS = ipvs(&c.IPVS)
	}
	out.remark(c)
	return out
}

// masqueradeAll is a key of two sections. kube-proxy takes that of iptables in every mode but nftables; a file without a
// mode may have been written for either.
func masqueradeAll(c *v1alpha1.KubeProxyConfiguration) bool {
	switch c.Mode {
	case "nftables", "ebpf":
		return c.NFTables.MasqueradeAll
	case "":
		return c.NFTables.MasqueradeAll || c.IPTables.MasqueradeAll
	}
	return c.IPTables.MasqueradeAll
}

// noExternalIPs is the feature gate of KEP-5707, which is on by default.
func noExternalIPs(c *v1alpha1.KubeProxyConfiguration) bool {
	allowed, said := c.FeatureGates["AllowServiceExternalIPs"]
	return said && !allowed
}

var everywhere = []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}

// nodePorts reads nodePortAddresses. Loopback addresses answer in mode iptables (iptables.localhostNodePorts), in others where
// the feature gate asks for it and the list names them.
func nodePorts(c *v1alpha1.KubeProxyConfiguration, mode string) (out proxy.NodePortAddresses) {
	list := c.NodePortAddresses
	if len(list) == 0 {
		list = []string{all}
		if mode == "nftables" || mode == "ebpf" {
			list = []string{primary}
		}
	}
	loopback, explicit := false, false
	for _, s := range list {
		switch s {
		case primary:
			out.Primary = true
		case localhost:
			out.In = append(out.In, netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128"))
		case all:
			out.In = append(out.In, everywhere...)
		default:
			out.In = append(out.In, netip.MustParsePrefix(s).Masked())
		}
	}
	for _, p := range out.In {
		explicit = explicit || p.Addr().IsLoopback()
		loopback = loopback || p.Addr().IsLoopback() || p.Contains(netip.AddrFrom4([4]byte{127}))
	}
	switch {
	case len(out.In) == 0:
		out.Primary = false // as the zero value says
	case slices.Contains(out.In, everywhere[0]) && slices.Contains(out.In, everywhere[1]):
		out = proxy.NodePortAddresses{All: true}
	}
	switch mode {
	case "iptables":
		out.Loopback = loopback && *c.IPTables.LocalhostNodePorts
	case "nftables", "ebpf":
		out.Loopback = explicit && c.FeatureGates["KubeProxyNFTablesLocalhostNodePorts"]
	}
	return out
}

func localPods(c *v1alpha1.KubeProxyConfiguration) (out proxy.LocalPods) {
	switch string(c.DetectLocalMode) {
	case nodeCIDR:
		out.Mode = proxy.ByNodeCIDR
	case bridgeInterface:
		out.Mode, out.Interface = proxy.ByBridge, c.DetectLocal.BridgeInterface
	case interfaceNamePrefix:
		out.Mode, out.Interface = proxy.ByInterfacePrefix, c.DetectLocal.InterfaceNamePrefix
	default:
		out.Mode = proxy.ByClusterCIDR
		for _, s := range strings.FieldsFunc(c.ClusterCIDR, func(r rune) bool { return r == ',' || r == ' ' }) {
			out.CIDRs = append(out.CIDRs, netip.MustParsePrefix(s).Masked())
		}
	}
	return out
}

func tracking(c *v1alpha1.KubeProxyConntrackConfiguration) proxy.Tracking {
	return proxy.Tracking{
		MaxPerCore: int(*c.MaxPerCore), Min: int(*c.Min),
		Established: c.TCPEstablishedTimeout.Duration, CloseWait: c.TCPCloseWaitTimeout.Duration,
		UDP: c.UDPTimeout.Duration, UDPStream: c.UDPStreamTimeout.Duration,
	}
}

func ipvs(c *v1alpha1.KubeProxyIPVSConfiguration) proxy.IPVSSettings {
	out := proxy.IPVSSettings{Scheduler: c.Scheduler, StrictARP: c.StrictARP, TCPTimeout: c.TCPTimeout.Duration,
		TCPFinTimeout: c.TCPFinTimeout.Duration, UDPTimeout: c.UDPTimeout.Duration}
	for _, s := range c.ExcludeCIDRs {
		out.Exclude = append(out.Exclude, netip.MustParsePrefix(s).Masked())
	}
	return out
}

// remark says what a configuration leaves open, or what kube-proxy would take another way.
func (o *Config) remark(c *v1alpha1.KubeProxyConfiguration) {
	say := func(s string) { o.Remarks = append(o.Remarks, s) }
	if c.Mode == "" && len(c.NodePortAddresses) == 0 {
		say("mode is not set: nftables, in which node ports answer at the node's primary addresses only; nodePortAddresses: [all] makes them answer at every address")
	}
	if o.Mode == "ipvs" {
		say("mode ipvs is deprecated in Kubernetes (off by default in 1.40, removed in 1.43, KEP-5495); nftables is the one to go to")
	}
	if o.Settings.LocalPods.Mode == proxy.ByClusterCIDR && len(o.Settings.LocalPods.CIDRs) == 0 {
		say("detectLocalMode is ClusterCIDR and clusterCIDR is not set: Pods of this node are not told from other clients")
	}
}
