package cli

import (
	"context"
	"net/netip"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/ingress"
	"github.com/podway/podway/internal/observe"
	"github.com/podway/podway/internal/trace/ask"
)

// ingressFlags are those of `podway ingress`.
type ingressFlags struct {
	daemon
	node, http, https, controller, class, trusted, socket string
	drain                                                 time.Duration
}

func newIngress() *cobra.Command {
	var n ingressFlags
	c := &cobra.Command{
		Use:   "ingress",
		Short: "Run the ingress proxy: HTTP and TLS by host and path, straight to the endpoints",
		Long: `Runs the ingress proxy. Changes of Ingresses, Services, endpoints and Secrets swap a table: no connection is dropped and
nothing is reloaded. On SIGTERM it goes on accepting, asks clients to go elsewhere, and ends when nothing comes any
more or after --drain.`,
		Example: `  podway ingress                               # in the Deployment podway-ingress
  podway ingress --kubeconfig k.yaml --http :80 --https :443`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd) },
	}
	n.flags(c, ":8081")
	f := c.Flags()
	f.StringVar(&n.node, "node-name", env("NODE_NAME", ""), "name of the node it runs on, for trace ($NODE_NAME)")
	f.StringVar(&n.http, "http", ":8080", "where plain HTTP listens, comma-separated ADDRESS:PORT")
	f.StringVar(&n.https, "https", ":8443", "where TLS listens, comma-separated ADDRESS:PORT")
	f.StringVar(&n.controller, "controller-name", "", "spec.controller of the IngressClasses served (default podway.io/ingress)")
	f.StringVar(&n.class, "ingress-class", "", "class served without an IngressClass object (default podway)")
	f.StringVar(&n.trusted, "trusted-proxies", "", "ranges of proxies in front whose X-Forwarded-* headers are believed, comma-separated")
	f.StringVar(&n.socket, "socket", ask.SocketPath, "where podway trace asks this proxy; empty = nowhere")
	f.DurationVar(&n.drain, "drain", 50*time.Second, "how long open requests may take after SIGTERM")
	return c
}

func (n *ingressFlags) run(cmd *cobra.Command) error {
	log, err := n.logger(cmd)
	if err != nil {
		return err
	}
	metrics := observe.NewRegistry()
	opt := ingress.Options{Controller: n.controller, Class: n.class, Metrics: metrics, Log: log}
	if err := n.addresses(&opt); err != nil {
		return err
	}
	h, err := ingress.New(opt)
	if err != nil {
		return err
	}
	clients, err := n.clients()
	if err != nil {
		return err
	}
	watcher := &cluster.Watcher{Clients: clients, Log: log, Kinds: []cluster.Kind{
		cluster.Services, cluster.EndpointSlices, cluster.Ingresses, cluster.IngressClasses, cluster.TLSSecrets}}
	hops := []hop.Hop{h}
	a := &agent.Agent{Source: watcher, Hops: hops, Node: n.node, Log: log, Metrics: metrics}
	log.Info("ingress proxy starts", "version", version)

	// The table is kept up to date while the proxy drains: the agent ends after it.
	run, stop := context.WithCancel(context.WithoutCancel(cmd.Context()))
	defer stop()
	g, ctx := errgroup.WithContext(run)
	g.Go(func() error { return a.Run(ctx) })
	n.serve(ctx, g, serving{agent: a, watcher: watcher, hops: hops, node: n.node, socket: n.socket, metrics: metrics, log: log})
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-cmd.Context().Done():
		}
		defer stop()
		log.Info("draining", "most", n.drain)
		end, cancel := context.WithTimeout(ctx, n.drain)
		defer cancel()
		return h.Drain(end)
	})
	return finished(ctx, g.Wait())
}

func (n *ingressFlags) addresses(o *ingress.Options) (err error) {
	for _, l := range []struct {
		flag, list string
		to         *[]netip.AddrPort
	}{{"http", n.http, &o.HTTP}, {"https", n.https, &o.HTTPS}} {
		if *l.to, err = listens(l.flag, l.list); err != nil {
			return err
		}
	}
	o.TrustedCIDRs, err = prefixes("trusted-proxies", n.trusted)
	return err
}
