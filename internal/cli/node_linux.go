package cli

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/cluster"
	dnsconfig "github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/observe"
	"github.com/podway/podway/internal/trace/ask"
)

// nodeFlags are those of `podway node`.
type nodeFlags struct {
	daemon
	node, hops, dnsListen, dnsServers, resolvConf, overlay, socket string
	proxyMode, proxyConfig, dnsConf                                string
	initOnly                                                       bool
	cniBin, cniConf                                                string
}

func newNode() *cobra.Command {
	var n nodeFlags
	c := &cobra.Command{
		Use:   "node",
		Short: "Run the node agent: pod network, service proxy, DNS, address announcement",
		Long: `Runs the hops of one node. It watches the cluster and keeps the node's live state as the cluster says; each hop is on
its own switch (--hops). When it ends, all that it programmed stays. It needs CAP_NET_ADMIN and CAP_NET_RAW.`,
		Example: `  podway node                                  # in the DaemonSet podway-node
  podway node --kubeconfig k.yaml --node-name node-1 --hops proxy`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd) },
	}
	n.flags(c, ":10256")
	hostname, _ := os.Hostname()
	f := c.Flags()
	f.StringVar(&n.node, "node-name", env("NODE_NAME", hostname), "this node's name in the cluster ($NODE_NAME)")
	f.StringVar(&n.hops, "hops", env("PODWAY_HOPS", "podnet,proxy,dns,announce"), "hops to serve, comma-separated ($PODWAY_HOPS)")
	f.StringVar(&n.dnsListen, "dns-listen", defaultDNSListen(), "where DNS listens, comma-separated ADDRESS:PORT")
	f.StringVar(&n.dnsConf, "dns-conf", os.Getenv("PODWAY_DNS_CONF"), "Corefile for DNS, followed; its port 53 is --dns-listen (default: the cluster's names, and --resolv-conf for all others) ($PODWAY_DNS_CONF)")
	f.StringVar(&n.dnsServers, "cluster-dns", os.Getenv("PODWAY_CLUSTER_DNS"), "addresses of the cluster's DNS Service, comma-separated ($PODWAY_CLUSTER_DNS)")
	f.StringVar(&n.resolvConf, "resolv-conf", "/etc/resolv.conf", "its name servers are asked for names outside the cluster")
	f.StringVar(&n.overlay, "overlay", env("PODWAY_OVERLAY", "auto"), "VXLAN between nodes: auto (only across networks), always, never ($PODWAY_OVERLAY)")
	f.StringVar(&n.proxyMode, "proxy-mode", os.Getenv("PODWAY_PROXY_MODE"), "mode of the service proxy: "+strings.Join(agent.ProxyModes(), ", ")+"; the first by default ($PODWAY_PROXY_MODE)")
	f.StringVar(&n.proxyConfig, "proxy-config", os.Getenv("PODWAY_PROXY_CONFIG"), "a KubeProxyConfiguration for the service proxy: nodePortAddresses, masqueradeAll, conntrack and so on ($PODWAY_PROXY_CONFIG)")
	f.StringVar(&n.socket, "socket", ask.SocketPath, "where podway trace asks this agent; empty = nowhere")
	f.StringVar(&n.cniBin, "cni-bin-dir", "/opt/cni/bin", "where the CNI plugin goes")
	f.StringVar(&n.cniConf, "cni-conf-dir", "/etc/cni/net.d", "where the CNI configuration goes")
	f.BoolVar(&n.initOnly, "init-only", false, "write kernel settings and prepare the proxy mode, which needs a privileged container, and end")
	return c
}

func defaultDNSListen() string {
	if ip := os.Getenv("HOST_IP"); ip != "" {
		return net.JoinHostPort(ip, "10053")
	}
	return ":10053"
}

func (n *nodeFlags) run(cmd *cobra.Command) error {
	log, err := n.logger(cmd)
	if err != nil {
		return err
	}
	if n.initOnly {
		return n.prepare(cmd.Context(), log)
	}
	metrics := observe.NewRegistry()
	opt, err := n.options(log, metrics)
	if err != nil {
		return err
	}
	names := words(n.hops)
	for _, name := range names {
		if !slices.Contains(agent.HopNames(), name) {
			return usage("--hops: no hop %q; there are %s", name, strings.Join(agent.HopNames(), ", "))
		}
	}
	hops, err := agent.Hops(names, opt)
	if err != nil {
		return err
	}
	clients, err := n.clients()
	if err != nil {
		return err
	}
	kinds := []cluster.Kind{cluster.Services, cluster.EndpointSlices, cluster.Nodes, cluster.Pools, cluster.ServiceCIDRs}
	if opt.DNSConfig != nil && slices.Contains(dnsKinds(opt.DNSConfig), cluster.Pods) {
		kinds = append(kinds, cluster.Pods)
	}
	watcher := &cluster.Watcher{Clients: clients, Log: log, Kinds: kinds}
	a := &agent.Agent{Source: watcher, Hops: hops, Node: n.node, Log: log, Metrics: metrics}
	log.Info("node agent starts", "node", n.node, "hops", names, "version", version)
	g, ctx := errgroup.WithContext(cmd.Context())
	g.Go(func() error { return a.Run(ctx) })
	if slices.Contains(names, "podnet") {
		g.Go(func() error { return n.keepInstalled(ctx, log, opt.Podnet) })
	}
	n.serve(ctx, g, serving{agent: a, watcher: watcher, hops: hops, node: n.node, socket: n.socket, metrics: metrics, log: log})
	return finished(ctx, g.Wait())
}

// prepare is --init-only: what only a privileged container may do.
func (n *nodeFlags) prepare(ctx context.Context, log *slog.Logger) error {
	if err := podnet.AllowForwarding(); err != nil || !slices.Contains(words(n.hops), "proxy") {
		return err
	}
	var o agent.Options
	if err := n.proxySettings(log, &o); err != nil {
		return err
	}
	return agent.Prepare(ctx, o.ProxyMode, n.node, o.Proxy, log)
}

func (n *nodeFlags) options(log *slog.Logger, metrics prometheus.Registerer) (o agent.Options, err error) {
	o = agent.Options{Node: n.node, Domain: n.domain, ResolvConf: n.resolvConf, Metrics: metrics, Log: log,
		Podnet: podnet.Options{Node: n.node, Overlay: podnet.Overlay(n.overlay)}}
	if err := n.proxySettings(log, &o); err != nil {
		return o, err
	}
	switch o.Podnet.Overlay {
	case podnet.OverlayAuto, podnet.OverlayAlways, podnet.OverlayNever:
	default:
		return o, usage("--overlay %q: want auto, always or never", n.overlay)
	}
	if o.ClusterCIDRs, err = prefixes("cluster-cidrs", n.clusterCIDRs); err != nil {
		return o, err
	}
	if o.ServiceCIDRs, err = prefixes("service-cidrs", n.serviceCIDRs); err != nil {
		return o, err
	}
	for _, a := range words(n.dnsServers) {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return o, usage("--cluster-dns: %q is no address", a)
		}
		o.DNSServers = append(o.DNSServers, ip)
	}
	if o.DNSListen, err = listens("dns-listen", n.dnsListen); err != nil || n.dnsConf == "" {
		return o, err
	}
	return o, n.dnsConfig(log, &o)
}

// dnsConfig reads the Corefile of the node's DNS server.
func (n *nodeFlags) dnsConfig(log *slog.Logger, o *agent.Options) error {
	d := dnsFlags{daemon: n.daemon, conf: n.dnsConf, port: dnsconfig.Port}
	var err error
	if o.DNSConfig, o.DNSChanged, err = d.configuration(); err != nil {
		return err
	}
	for _, note := range o.DNSConfig.Notes {
		log.Info("accepted; nothing needs to be done for it", "hop", "dns", "at", note.At.String(), "plugin", note.Plugin, "why", note.Text)
	}
	return nil
}

const (
	installFast = 50 * time.Millisecond // until the node is ready for Pods
	installSlow = 10 * time.Second      // afterwards: somebody may delete the files
	installFail = time.Second           // after an error: each attempt may copy the whole program
)

// keepInstalled keeps the CNI plugin and its configuration in place; the configuration comes once podnet has applied.
func (n *nodeFlags) keepInstalled(ctx context.Context, log *slog.Logger, o podnet.Options) error {
	wait, said := installFast, ""
	for {
		done, findings, err := podnet.Install(o, n.cniBin, n.cniConf, "/proc/self/exe")
		pause := wait
		if err != nil {
			pause = installFail
			if err.Error() != said {
				log.Error("install the CNI plugin; will retry", "hop", "podnet", "err", err)
			}
			said = err.Error()
		} else {
			said = ""
		}
		if done && wait == installFast {
			wait, pause = installSlow, installSlow
			log.Info("the node is ready for Pods", "hop", "podnet", "conf", n.cniConf)
			for _, f := range findings {
				log.Warn("finding", "code", string(f.Code), "object", f.Object, "cause", f.Cause, "fix", f.Fix)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
	}
}

// proxySettings reads what an operator chose for the service proxy. Without a file a Pod of this node is known by
// spec.podCIDRs, since podnet gives it an address from there.
func (n *nodeFlags) proxySettings(log *slog.Logger, o *agent.Options) error {
	o.ProxyMode = n.proxyMode
	if n.proxyConfig != "" {
		k := kubeProxyFlags{}
		k.add(pflag.NewFlagSet("proxy", pflag.ContinueOnError))
		k.file = n.proxyConfig
		r, err := k.resolve()
		if err != nil {
			return err
		}
		k.say(log, r)
		o.Proxy, o.Tracking = r.Settings, &r.Tracking
		if o.ProxyMode == "" || r.Given.Mode != "" {
			o.ProxyMode = r.Mode
		}
	}
	if o.ProxyMode == "" {
		return nil
	}
	return modeThere(o.ProxyMode)
}
