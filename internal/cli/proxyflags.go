package cli

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/kube-proxy/config/v1alpha1"

	"github.com/podway/podway/internal/hop/proxy/config"
)

// kubeProxyFlags are kube-proxy's flags (Kubernetes 1.37) and what they are bound to.
type kubeProxyFlags struct {
	c *v1alpha1.KubeProxyConfiguration // what the flags say, on top of the defaults

	file, writeTo            string
	cleanup, initOnly        bool
	master, hostname         string
	healthzPort, metricsPort int
	iptablesSync, ipvsSync   struct{ every, least time.Duration }
	flags                    *pflag.FlagSet
}

// besideFile are the flags that count beside --config, as in kube-proxy; all others are said in the file.
var besideFile = []string{"config", "write-config-to", "cleanup", "init-only", "master", "hostname-override", "help", "version",
	"v", "vmodule", "logging-format", "log-flush-frequency"}

func (k *kubeProxyFlags) add(f *pflag.FlagSet) {
	k.c, k.flags = config.Default(), f
	f.StringVar(&k.file, "config", "", "a KubeProxyConfiguration; flags that say the same are ignored then")
	f.StringVar(&k.writeTo, "write-config-to", "", "write the configuration that the flags make to this file and end")
	f.BoolVar(&k.cleanup, "cleanup", false, "remove what podway's service proxy programmed on this node, of every mode, and end")
	f.BoolVar(&k.initOnly, "init-only", false, "write the kernel settings that need a privileged container, and end")
	k.general(f)
	k.perMode(f)
	k.tracking(f)
	k.logging(f)
}

func (k *kubeProxyFlags) general(f *pflag.FlagSet) {
	c := k.c
	f.Var((*gateFlag)(&c.FeatureGates), "feature-gates", "NAME=true|false, comma-separated; AllowServiceExternalIPs and KubeProxyNFTablesLocalhostNodePorts count")
	f.StringVar(&c.ClientConnection.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster (default: the Pod's service account)")
	f.StringVar(&k.master, "master", "", "address of the API server instead of the kubeconfig's")
	f.StringVar(&c.ClientConnection.ContentType, "kube-api-content-type", c.ClientConnection.ContentType, "content type of requests to the API server")
	f.Int32Var(&c.ClientConnection.Burst, "kube-api-burst", c.ClientConnection.Burst, "burst of requests to the API server")
	f.Float32Var(&c.ClientConnection.QPS, "kube-api-qps", c.ClientConnection.QPS, "requests to the API server a second")
	f.StringVar(&k.hostname, "hostname-override", "", "this node's name in the cluster (default: $NODE_NAME, then the host's name)")
	f.StringVar(&c.BindAddress, "bind-address", c.BindAddress, "the node's primary address, when the Node object does not say the right one; nothing is bound to it")
	f.StringVar(&c.HealthzBindAddress, "healthz-bind-address", c.HealthzBindAddress, "address of /healthz and /livez; empty = none")
	f.StringVar(&c.MetricsBindAddress, "metrics-bind-address", c.MetricsBindAddress, "address of /metrics; empty = none")
	f.BoolVar(&c.BindAddressHardFail, "bind-address-hard-fail", false, "end when one of these addresses cannot be opened")
	f.BoolVar(&c.EnableProfiling, "profiling", false, "serve /debug/pprof at the metrics address")
	f.StringVar(&c.ShowHiddenMetricsForVersion, "show-hidden-metrics-for-version", "", "accepted; no metric is hidden")
	f.StringVar((*string)(&c.Mode), "proxy-mode", os.Getenv("PODWAY_PROXY_MODE"), strings.Join(config.Modes, ", ")+"; empty = "+config.Modes[0]+" ($PODWAY_PROXY_MODE, also beside a --config that names none)")
	f.BoolVar(&c.IPTables.MasqueradeAll, "masquerade-all", false, "hide every client of a ClusterIP behind the node's address")
	f.StringVar((*string)(&c.DetectLocalMode), "detect-local-mode", "", "how a Pod of this node is known: ClusterCIDR (default), NodeCIDR, BridgeInterface, InterfaceNamePrefix")
	f.StringVar(&c.DetectLocal.BridgeInterface, "pod-bridge-interface", "", "the Pods' bridge, for BridgeInterface")
	f.StringVar(&c.DetectLocal.InterfaceNamePrefix, "pod-interface-name-prefix", "", "the beginning of the names of the Pods' devices, for InterfaceNamePrefix")
	f.StringVar(&c.ClusterCIDR, "cluster-cidr", "", "range of Pod addresses, or one of each family, comma-separated; for ClusterCIDR")
	f.StringSliceVar(&c.NodePortAddresses, "nodeport-addresses", nil, "ranges, primary, localhost, all: where node ports answer (default: primary in modes nftables and ebpf, all in others)")
	f.Int32Var(c.OOMScoreAdj, "oom-score-adj", *c.OOMScoreAdj, "-1000 to 1000: how soon the kernel ends this process when memory is short")
	f.DurationVar(&c.ConfigSyncPeriod.Duration, "config-sync-period", c.ConfigSyncPeriod.Duration, "accepted; watches need no resynchronisation")
	f.IntVar(&k.healthzPort, "healthz-port", 10256, "port of /healthz; 0 = none")
	f.IntVar(&k.metricsPort, "metrics-port", 10249, "port of /metrics; 0 = none")
	_ = f.MarkDeprecated("healthz-port", "use --healthz-bind-address")
	_ = f.MarkDeprecated("metrics-port", "use --metrics-bind-address")
}

func (k *kubeProxyFlags) perMode(f *pflag.FlagSet) {
	c := k.c
	f.Int32Var(c.IPTables.MasqueradeBit, "iptables-masquerade-bit", *c.IPTables.MasqueradeBit, "0 to 31: the bit of a packet's mark by which modes iptables and ipvs masquerade")
	f.BoolVar(c.IPTables.LocalhostNodePorts, "iptables-localhost-nodeports", *c.IPTables.LocalhostNodePorts, "node ports answer at 127.0.0.1 in mode iptables")
	f.DurationVar(&k.iptablesSync.every, "iptables-sync-period", c.IPTables.SyncPeriod.Duration, "half of how late a change may be before /healthz says 503; for all modes but ipvs")
	f.DurationVar(&k.iptablesSync.least, "iptables-min-sync-period", c.IPTables.MinSyncPeriod.Duration, "accepted; changes are applied at once")
	f.DurationVar(&k.ipvsSync.every, "ipvs-sync-period", c.IPVS.SyncPeriod.Duration, "as --iptables-sync-period, for mode ipvs")
	f.DurationVar(&k.ipvsSync.least, "ipvs-min-sync-period", 0, "accepted; changes are applied at once")
	f.StringVar(&c.IPVS.Scheduler, "ipvs-scheduler", "", "rr, wrr, lc, wlc, sh, dh, sed, nq, mh, lblc or lblcr (default rr)")
	f.StringSliceVar(&c.IPVS.ExcludeCIDRs, "ipvs-exclude-cidrs", nil, "ranges whose virtual servers are somebody else's")
	f.BoolVar(&c.IPVS.StrictARP, "ipvs-strict-arp", false, "answer ARP only for addresses of the device that is asked, in mode ipvs")
	f.DurationVar(&c.IPVS.TCPTimeout.Duration, "ipvs-tcp-timeout", 0, "of idle connections in mode ipvs; 0 = the kernel's")
	f.DurationVar(&c.IPVS.TCPFinTimeout.Duration, "ipvs-tcpfin-timeout", 0, "after a FIN in mode ipvs; 0 = the kernel's")
	f.DurationVar(&c.IPVS.UDPTimeout.Duration, "ipvs-udp-timeout", 0, "of UDP in mode ipvs; 0 = the kernel's")
}

func (k *kubeProxyFlags) tracking(f *pflag.FlagSet) {
	t := &k.c.Conntrack
	f.Int32Var(t.MaxPerCore, "conntrack-max-per-core", *t.MaxPerCore, "connections to track for each processor; 0 = leave nf_conntrack_max")
	f.Int32Var(t.Min, "conntrack-min", *t.Min, "connections to track at least")
	f.DurationVar(&t.TCPEstablishedTimeout.Duration, "conntrack-tcp-timeout-established", t.TCPEstablishedTimeout.Duration, "how long an idle TCP connection is remembered; 0 = the kernel's")
	f.DurationVar(&t.TCPCloseWaitTimeout.Duration, "conntrack-tcp-timeout-close-wait", t.TCPCloseWaitTimeout.Duration, "how long one in state CLOSE_WAIT is; 0 = the kernel's")
	f.BoolVar(&t.TCPBeLiberal, "conntrack-tcp-be-liberal", false, "accepted; always on")
	f.DurationVar(&t.UDPTimeout.Duration, "conntrack-udp-timeout", 0, "how long UDP without answer is remembered; 0 = the kernel's")
	f.DurationVar(&t.UDPStreamTimeout.Duration, "conntrack-udp-timeout-stream", 0, "how long UDP with answers is; 0 = the kernel's")
}

func (k *kubeProxyFlags) logging(f *pflag.FlagSet) {
	l := &k.c.Logging
	f.StringVar(&l.Format, "logging-format", l.Format, "text or json")
	f.VarP((*verbosityFlag)(&l.Verbosity), "v", "v", "4 and more: debug")
	f.String("vmodule", "", "accepted; there are no such files")
	f.Duration("log-flush-frequency", 5*time.Second, "accepted; the log is not buffered")
	f.Bool("log-text-split-stream", false, "accepted; the log has one stream")
	f.String("log-text-info-buffer-size", "", "accepted; the log is not buffered")
	f.Bool("log-json-split-stream", false, "accepted; the log has one stream")
	f.String("log-json-info-buffer-size", "", "accepted; the log is not buffered")
}

// resolved is a configuration that was read and checked.
type resolved struct {
	*config.Config
	Given   *v1alpha1.KubeProxyConfiguration
	Unused  []config.Key
	Ignored []string // flags beside a file that says the same
	data    []byte   // of the file
}

// resolve reads the file if there is one, and the flags.
func (k *kubeProxyFlags) resolve() (*resolved, error) {
	out := &resolved{Given: k.c}
	if k.file == "" {
		k.complete()
	} else if err := k.read(out); err != nil {
		return nil, err
	}
	if k.hostname != "" {
		out.Given.HostnameOverride = k.hostname
	}
	if err := config.Check(out.Given); err != nil {
		if k.file != "" {
			return nil, usage("%s: %w", k.file, err)
		}
		return nil, usage("%w", err)
	}
	out.Config = config.Resolve(out.Given)
	return out, nil
}

// complete carries out what a flag says to more than one key.
func (k *kubeProxyFlags) complete() {
	c := k.c
	c.NFTables.MasqueradeAll = c.IPTables.MasqueradeAll
	c.HealthzBindAddress = withPort(c.HealthzBindAddress, k.healthzPort, k.flags.Changed("healthz-port"))
	c.MetricsBindAddress = withPort(c.MetricsBindAddress, k.metricsPort, k.flags.Changed("metrics-port"))
	if c.Mode == "ipvs" {
		c.IPVS.SyncPeriod.Duration, c.IPVS.MinSyncPeriod.Duration = k.ipvsSync.every, k.ipvsSync.least
		return
	}
	c.IPTables.SyncPeriod.Duration, c.IPTables.MinSyncPeriod.Duration = k.iptablesSync.every, k.iptablesSync.least
	c.NFTables.SyncPeriod, c.NFTables.MinSyncPeriod = c.IPTables.SyncPeriod, c.IPTables.MinSyncPeriod
}

// withPort is an address with the port of a flag of old times; an address that has a port keeps it.
func withPort(address string, port int, said bool) string {
	host, _, found := strings.Cut(address, "]:")
	switch {
	case said && port == 0:
		return ""
	case !said || address == "":
		return address
	case found:
		return fmt.Sprintf("%s]:%d", host, port)
	}
	if i := strings.LastIndex(address, ":"); i >= 0 {
		return address[:i+1] + strconv.Itoa(port)
	}
	return address + ":" + strconv.Itoa(port)
}

func (k *kubeProxyFlags) read(out *resolved) error {
	data, err := os.ReadFile(k.file)
	if err != nil {
		return usage("--config: %w", err)
	}
	f, err := config.Load(k.file, data)
	if err != nil {
		return usage("%w", err)
	}
	config.Fill(&f.KubeProxyConfiguration)
	out.data, out.Unused = data, config.Unused(f.Given)
	c := &f.KubeProxyConfiguration
	if k.flags.Changed("v") {
		c.Logging.Verbosity = k.c.Logging.Verbosity
	}
	if k.flags.Changed("logging-format") {
		c.Logging.Format = k.c.Logging.Format
	}
	if c.Mode == "" {
		c.Mode = v1alpha1.ProxyMode(os.Getenv("PODWAY_PROXY_MODE"))
	}
	k.flags.Visit(func(f *pflag.Flag) {
		if isKubeProxyFlag(f) && !slices.Contains(besideFile, f.Name) {
			out.Ignored = append(out.Ignored, f.Name)
		}
	})
	out.Given = c
	return nil
}

// podwayFlag marks flags that are podway's own, which count beside --config too.
const podwayFlag = "podway"

func isKubeProxyFlag(f *pflag.Flag) bool { return f.Annotations[podwayFlag] == nil }

// write is --write-config-to.
func (k *kubeProxyFlags) write(r *resolved) error {
	b, err := config.Write(r.Given)
	if err != nil {
		return err
	}
	if err := os.WriteFile(k.writeTo, b, 0o644); err != nil {
		return fmt.Errorf("--write-config-to: %w", err)
	}
	return nil
}

// gateFlag is a map of names to booleans.
type gateFlag map[string]bool

func (g *gateFlag) Type() string { return "NAME=BOOL,..." }

func (g *gateFlag) String() string {
	var out []string
	for n, on := range *g {
		out = append(out, fmt.Sprintf("%s=%t", n, on))
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

func (g *gateFlag) Set(s string) error {
	for _, pair := range strings.Split(s, ",") {
		name, value, ok := strings.Cut(pair, "=")
		on, err := strconv.ParseBool(strings.TrimSpace(value))
		if !ok || err != nil {
			return fmt.Errorf("%q: want NAME=true or NAME=false", pair)
		}
		if *g == nil {
			*g = gateFlag{}
		}
		(*g)[strings.TrimSpace(name)] = on
	}
	return nil
}

// verbosityFlag is a log level of klog.
type verbosityFlag uint32

func (v *verbosityFlag) Type() string   { return "level" }
func (v *verbosityFlag) String() string { return strconv.Itoa(int(*v)) }
func (v *verbosityFlag) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return errors.New("want a number")
	}
	*v = verbosityFlag(n)
	return nil
}
