package cli

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control"
	"github.com/podway/podway/internal/control/loadbalancer"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/observe"
)

// controllerFlags are those of `podway controller`.
type controllerFlags struct {
	daemon
	loops      string
	adopt      bool
	kubeNames  bool
	noElection bool
	namespace  string
	identity   string
}

func newController() *cobra.Command {
	var n controllerFlags
	c := &cobra.Command{
		Use:   "controller",
		Short: "Run the control loops: EndpointSlices, LoadBalancer addresses, Ingress status",
		Long: `Runs what writes to the API: EndpointSlices and Endpoints from Pods and Services, addresses of LoadBalancer Services
from AddressPools, and the status of Ingresses. Of several replicas one leads.`,
		Example: `  podway controller                            # in the Deployment podway-controller
  podway controller --kubeconfig k.yaml --loops loadbalancer`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return n.run(cmd) },
	}
	n.flags(c, ":10266")
	f := c.Flags()
	f.StringVar(&n.loops, "loops", env("PODWAY_LOOPS", "endpointslice,loadbalancer,status"), "loops to run, comma-separated ($PODWAY_LOOPS)")
	f.BoolVar(&n.adopt, "adopt", false, "take over the EndpointSlices of kube-controller-manager; its controllers must be off")
	f.BoolVar(&n.kubeNames, "kubernetes-names", env("PODWAY_KUBERNETES_NAMES", "") == "true",
		"label EndpointSlices and Endpoints as managed by kube-controller-manager's controllers, which must be off; implies --adopt ($PODWAY_KUBERNETES_NAMES)")
	f.BoolVar(&n.noElection, "no-leader-election", false, "lead at once: there is no other replica")
	f.StringVar(&n.namespace, "namespace", env("POD_NAMESPACE", "kube-system"), "namespace of the Lease ($POD_NAMESPACE)")
	f.StringVar(&n.identity, "identity", env("POD_NAME", ""), "name of this replica in the Lease ($POD_NAME; default host name and a random part)")
	return c
}

func (n *controllerFlags) run(cmd *cobra.Command) error {
	log, err := n.logger(cmd)
	if err != nil {
		return err
	}
	loops, err := loopsOf(words(n.loops))
	if err != nil {
		return err
	}
	var ranges loadbalancer.Ranges
	if ranges.Pods, err = prefixes("cluster-cidrs", n.clusterCIDRs); err != nil {
		return err
	}
	if ranges.Services, err = prefixes("service-cidrs", n.serviceCIDRs); err != nil {
		return err
	}
	clients, err := n.clients()
	if err != nil {
		return err
	}
	watcher := &cluster.Watcher{Clients: clients, Log: log, Kinds: []cluster.Kind{cluster.Services, cluster.EndpointSlices,
		cluster.Nodes, cluster.Pods, cluster.Ingresses, cluster.IngressClasses, cluster.Pools}}
	seen := &sighting{Watcher: watcher}
	log.Info("controller starts", "loops", n.loops, "version", version)
	metrics := observe.NewRegistry()
	g, ctx := errgroup.WithContext(cmd.Context())
	g.Go(func() error {
		return control.Run(ctx, control.Options{Client: clients.Typed, Dynamic: clients.Dynamic, Source: seen, Log: log, Loops: loops, Ranges: ranges, Metrics: metrics,
			Adopt: n.adopt, KubernetesNames: n.kubeNames, Namespace: n.namespace, Identity: n.identity, NoElection: n.noElection})
	})
	if n.health != "" {
		srv := &observe.Server{Addr: n.health, Metrics: metrics,
			Live:  map[string]observe.Check{"process": func() error { return nil }},
			Ready: map[string]observe.Check{"view": seen.ready}}
		g.Go(func() error { return srv.Run(ctx) })
	}
	return finished(ctx, g.Wait())
}

func loopsOf(names []string) (l control.Loops, err error) {
	for _, name := range names {
		switch name {
		case "endpointslice":
			l.EndpointSlice = true
		case "loadbalancer":
			l.LoadBalancer = true
		case "status":
			l.Status = true
		default:
			return l, usage("--loops: no loop %q; there are endpointslice, loadbalancer, status", name)
		}
	}
	if !slices.Contains([]bool{l.EndpointSlice, l.LoadBalancer, l.Status}, true) {
		return l, usage("--loops: none is named")
	}
	return l, nil
}

// sighting is a Watcher that remembers whether it has seen the whole cluster.
type sighting struct {
	*cluster.Watcher
	complete atomic.Bool
}

// Run implements control.Source.
func (s *sighting) Run(ctx context.Context, put func(*model.Snapshot)) error {
	return s.Watcher.Run(ctx, func(snap *model.Snapshot) {
		s.complete.Store(true)
		put(snap)
	})
}

func (s *sighting) ready() error {
	if !s.complete.Load() {
		return errors.New("no complete view of the cluster yet")
	}
	return nil
}
