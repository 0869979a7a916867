package cli

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/hop/dns/config"
	"github.com/podway/podway/internal/hop/dns/corefile"
	"github.com/podway/podway/internal/observe"
)

// dnsLameduck is how long `podway dns` goes on answering when its Corefile says nothing of it.
const dnsLameduck = 5 * time.Second

// dnsFlags are those of `podway dns`.
type dnsFlags struct {
	daemon
	conf, objects, servers string
	port                   uint16
	check                  bool
}

func newDNS() *cobra.Command {
	var n dnsFlags
	c := &cobra.Command{
		Use:   "dns",
		Short: "Run the DNS server alone, with a Corefile: in CoreDNS's place, or on any machine",
		Long: `Serves the names of a cluster, and what a Corefile says beside them, as a Deployment or as a process on any machine. It
watches the API server, or a folder of YAML. Ports are CoreDNS's, unless the Corefile says otherwise: 53 for questions,
:9153/metrics, :8080/health, :8181/ready. A changed Corefile is taken within two seconds; one that is not valid changes nothing.
On SIGTERM it is no longer ready and goes on answering for the time of lameduck, 5s by default.`,
		Example: `  podway dns                                                  # in a Pod, with the Corefile that kubeadm writes
  podway dns --conf /etc/coredns/Corefile
  podway dns --kubeconfig k.yaml --dns-port 5353               # on a machine
  podway dns --objects ./objects --conf Corefile               # without any cluster
  podway dns --check --conf Corefile                           # what would be refused, and what needs nothing`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd) },
	}
	n.flags(c, "")
	f := c.Flags()
	_ = f.MarkHidden("health-address") // the Corefile says where
	f.StringVar(&n.conf, "conf", os.Getenv("PODWAY_DNS_CONF"), "Corefile; empty = the one that kubeadm writes ($PODWAY_DNS_CONF)")
	f.StringVar(&n.objects, "objects", "", "folder of YAML, or one file, in the place of an API server; changes are followed")
	f.StringVar(&n.servers, "cluster-dns", os.Getenv("PODWAY_CLUSTER_DNS"), "addresses of the cluster's DNS Service, comma-separated ($PODWAY_CLUSTER_DNS)")
	f.Uint16Var(&n.port, "dns-port", config.Port, "port of server blocks that name none")
	f.BoolVar(&n.check, "check", false, "say whether the Corefile is valid, and what it has that needs nothing here; serve nothing")
	_ = c.MarkFlagFilename("conf")
	_ = c.MarkFlagDirname("objects")
	values(c, "log-format", "text", "json")
	values(c, "log-level", "debug", "info", "warn", "error")
	return c
}

// builtInName stands for the file in messages about kubeadm's Corefile.
const builtInName = "the Corefile of kubeadm"

// configuration reads the Corefile; changed is nil when there is no file.
func (n *dnsFlags) configuration() (c *config.Config, changed func() (*config.Config, error), err error) {
	o := corefile.Options{Port: n.port, Domain: strings.ToLower(strings.TrimSuffix(n.domain, ".")) + "."}
	if n.conf == "" {
		text := strings.ReplaceAll(corefile.Kubeadm, "cluster.local", n.domain)
		c, err = corefile.Parse(builtInName, []byte(strings.Replace(text, ".:53", ".", 1)), o)
		return c, nil, err
	}
	f, c, err := corefile.Follow(n.conf, o)
	if err == nil && !c.NoReload {
		changed = f.Changed
	}
	return c, changed, err
}

func (n *dnsFlags) run(cmd *cobra.Command) error {
	c, changed, err := n.configuration()
	if n.check {
		return n.checked(cmd.OutOrStdout(), c, err)
	}
	if err != nil {
		return err
	}
	log, err := n.logger(cmd)
	if err != nil {
		return err
	}
	metrics := observe.NewRegistry()
	o, err := n.options(c, changed, metrics)
	if err != nil {
		return err
	}
	h, err := dns.New(o)
	if err != nil {
		return err
	}
	source, err := n.source(c)
	if err != nil {
		return err
	}
	for _, note := range c.Notes {
		log.Info("accepted; nothing needs to be done for it", "hop", "dns", "at", note.At.String(), "plugin", note.Plugin, "why", note.Text)
	}
	if err := h.Listen(cmd.Context()); err != nil {
		return err // no names of the cluster yet, but all others
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50) // answering makes no garbage, so that a small heap costs nothing
	}
	log.Info("DNS server starts", "conf", n.conf, "blocks", len(c.Blocks), "version", version)
	a := &agent.Agent{Source: source, Hops: []hop.Hop{h}, Log: log, Metrics: metrics, Leave: o.Lameduck + 3*time.Second}
	g, ctx := errgroup.WithContext(cmd.Context())
	serve, stop := context.WithCancel(context.WithoutCancel(ctx)) // health is asked to the very end
	for _, e := range endpoints(c, h, metrics) {
		e.Log = log
		g.Go(func() error { return e.Run(serve) })
	}
	g.Go(func() error {
		defer stop()
		return a.Run(ctx)
	})
	g.Go(func() error { // whatever fails ends the rest
		<-ctx.Done()
		if cmd.Context().Err() == nil {
			stop()
		}
		return nil
	})
	return finished(ctx, g.Wait())
}

func (n *dnsFlags) options(c *config.Config, changed func() (*config.Config, error), metrics prometheus.Registerer) (dns.Options, error) {
	o := dns.Options{Config: c, Changed: changed, AsConfigured: true, Metrics: metrics, Domain: n.domain, Lameduck: dnsLameduck}
	if c.Lameduck > 0 {
		o.Lameduck = c.Lameduck
	}
	for flag, list := range map[string]string{"cluster-cidrs": n.clusterCIDRs, "service-cidrs": n.serviceCIDRs} {
		p, err := prefixes(flag, list)
		if err != nil {
			return o, err
		}
		o.CIDRs = append(o.CIDRs, p...)
	}
	for _, a := range words(n.servers) {
		ip, err := netip.ParseAddr(a)
		if err != nil {
			return o, usage("--cluster-dns: %q is no address", a)
		}
		o.Nameservers = append(o.Nameservers, ip)
	}
	return o, nil
}

// source is where the cluster's objects come from.
func (n *dnsFlags) source(c *config.Config) (agent.Source, error) {
	if n.objects != "" {
		return &cluster.Folder{Path: n.objects, Log: slog.Default()}, nil
	}
	kinds := dnsKinds(c)
	if len(kinds) == 0 {
		return nothing{}, nil
	}
	clients, err := n.clients()
	if err != nil {
		return nil, err
	}
	return &cluster.Watcher{Clients: clients, Log: slog.Default(), Kinds: kinds, NamesOnly: !namesPods(c)}, nil
}

// namesPods reports whether endpoints may be called like their Pods, which NamesOnly forgets.
func namesPods(c *config.Config) bool {
	return slices.ContainsFunc(c.Blocks, func(b *config.Block) bool { return b.Cluster != nil && b.Cluster.EndpointPodNames })
}

// dnsKinds are the objects that a configuration needs.
func dnsKinds(c *config.Config) (kinds []cluster.Kind) {
	for _, b := range c.Blocks {
		if b.Cluster == nil {
			continue
		}
		if len(kinds) == 0 {
			kinds = []cluster.Kind{cluster.Services, cluster.EndpointSlices}
		}
		if b.Cluster.Pods == config.PodsVerified && !slices.Contains(kinds, cluster.Pods) {
			kinds = append(kinds, cluster.Pods)
		}
	}
	return kinds
}

// checked prints what --check finds.
func (n *dnsFlags) checked(out io.Writer, c *config.Config, err error) error {
	if err != nil {
		return exitWith(ExitBroken, err)
	}
	for _, b := range c.Blocks {
		var keys []string
		for _, k := range b.Keys {
			keys = append(keys, fmt.Sprintf("%s:%d", k.Zone, k.Port))
		}
		fmt.Fprintf(out, "%s: serves %s\n", b.At, strings.Join(keys, " "))
	}
	for _, note := range c.Notes {
		fmt.Fprintf(out, "%s: %s is accepted and needs nothing: %s\n", note.At, note.Plugin, note.Text)
	}
	fmt.Fprintln(out, "valid")
	return nil
}
