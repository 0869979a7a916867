package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/kubeproxy"
	"github.com/podway/podway/internal/model"
)

// takeoverFlags are those of `podway takeover`.
type takeoverFlags struct {
	proxyFlags
	dir string
}

func newTakeover() *cobra.Command {
	c := &cobra.Command{
		Use:   "takeover",
		Short: "Replace a running kube-proxy on this node: look, do it, or go back",
		Long: `Puts podway's service proxy in the place of a kube-proxy on this node. apply programs podway's rules beside kube-proxy's,
proves them (they are read back, asked about flows and connected through), and then takes kube-proxy's out of force;
open connections go on. What was taken out is kept until --forget, so that rollback puts it back. Rules of kubelet, CNI
plugins and network policies stay.

End kube-proxy before apply, or it writes its rules again; run podway proxy (or podway node) afterwards, which keeps the
rules up to date. In mode ipvs podway goes on with kube-proxy's virtual servers as they are.`,
		Example: `  podway takeover plan
  podway takeover apply --config /var/lib/kube-proxy/config.conf
  podway takeover rollback`,
		Args: noSubcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newTakeoverPlan(), newTakeoverApply(), newTakeoverRollback())
	return c
}

func dirOf(f *pflag.FlagSet, to *string) {
	f.StringVar(to, "state-dir", "/run/podway-takeover", "where what was taken out is kept")
}

func newTakeoverPlan() *cobra.Command {
	var t takeoverFlags
	c := &cobra.Command{Use: "plan", Short: "Print what a kube-proxy has on this node, and what the cluster says of it; change nothing", Args: cobra.NoArgs}
	t.bind(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		out := cmd.OutOrStdout()
		found, err := printForeign(cmd.Context(), out, agent.KubeProxies(nil, t.dir))
		if err != nil {
			return err
		}
		if !found {
			fmt.Fprintln(out, "no rules of kube-proxy are on this node")
		}
		parts, err := agent.Leftovers(cmd.Context(), agent.CleanupOptions{}, true)
		if err != nil {
			return err
		}
		for _, p := range parts {
			fmt.Fprintf(out, "podway: %s is programmed\n", p.Name)
		}
		t.printConfig(cmd.Context(), out)
		return nil
	}
	return c
}

// bind adds the flags of podway proxy, without those that do something else.
func (t *takeoverFlags) bind(c *cobra.Command) {
	t.kubeProxyFlags.add(c.Flags())
	for _, name := range []string{"cleanup", "init-only", "write-config-to"} {
		_ = c.Flags().MarkHidden(name) // the flag is there
	}
	c.Flags().StringVar(&t.apiServer, "apiserver", os.Getenv("PODWAY_APISERVER"), "host:port of the API server, reached without the service proxy ($PODWAY_APISERVER)")
	c.Flags().StringVar(&t.serviceCIDRs, "service-cidrs", os.Getenv("PODWAY_SERVICE_CIDRS"), "ranges of Service addresses, comma-separated ($PODWAY_SERVICE_CIDRS)")
	dirOf(c.Flags(), &t.dir)
}

func printForeign(ctx context.Context, out io.Writer, all []agent.KubeProxy) (found bool, err error) {
	for _, k := range all {
		objects, err := k.Objects(ctx)
		if err != nil {
			return found, fmt.Errorf("%s: %w", k.Name(), err)
		}
		for _, o := range objects {
			found = true
			fmt.Fprintf(out, "kube-proxy: %s\n", o)
		}
	}
	return found, nil
}

// printConfig shows the configuration in the cluster's ConfigMap, when the API server answers.
func (t *takeoverFlags) printConfig(ctx context.Context, out io.Writer) {
	ctx, stop := context.WithTimeout(ctx, 5*time.Second)
	defer stop()
	r, err := t.resolve()
	if err == nil {
		var c cluster.Clients
		if c, err = t.connect(r.Client); err == nil {
			m, get := c.Typed.CoreV1().ConfigMaps("kube-system").Get(ctx, "kube-proxy", metav1.GetOptions{})
			if err = get; err == nil {
				fmt.Fprintf(out, "ConfigMap kube-system/kube-proxy:\n%s", m.Data["config.conf"])
			}
		}
	}
	if err != nil {
		fmt.Fprintf(out, "ConfigMap kube-system/kube-proxy was not read: %v\n", err)
	}
}

func newTakeoverApply() *cobra.Command {
	var t takeoverFlags
	forget := false
	c := &cobra.Command{Use: "apply", Short: "Program podway's rules, prove them, and take kube-proxy's out of force", Args: cobra.NoArgs}
	t.bind(c)
	c.Flags().BoolVar(&forget, "forget", false, "delete for good what was taken out: there is no way back then")
	c.RunE = func(cmd *cobra.Command, _ []string) error { return t.apply(cmd, forget) }
	return c
}

func (t *takeoverFlags) apply(cmd *cobra.Command, forget bool) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	r, err := t.resolve()
	if err != nil {
		return err
	}
	if err := modeThere(r.Mode); err != nil {
		return err
	}
	clients, err := t.connect(r.Client)
	if err != nil {
		return err
	}
	t.logFormat, t.logLevel = r.LogFormat, "warn"
	log, err := t.logger(cmd)
	if err != nil {
		return err
	}
	s, err := firstView(ctx, clients, log)
	if err != nil {
		return err
	}
	all := agent.KubeProxies(nil, t.dir)
	var foreign []proxy.Backend
	for _, k := range all {
		if _, chains := k.(*kubeproxy.Chains); chains && r.Mode == "iptables" {
			continue // podway makes kube-proxy's chains its own
		}
		foreign = append(foreign, k)
	}
	hops, err := t.hops(log, r, r.nodeName(), agent.Options{Foreign: foreign})
	if err != nil {
		return err
	}
	report, err := hops[0].Apply(ctx, s, model.Everything())
	if err != nil {
		return err
	}
	if err := leftovers(report.Findings); err != nil {
		return exitWith(ExitBroken, err)
	}
	fmt.Fprintf(out, "podway's rules of mode %s are in force and proven; %d Services\n", r.Mode, s.Services.Len())
	if forget {
		for _, k := range all {
			if err := k.Forget(ctx); err != nil {
				return err
			}
		}
		return nil
	}
	_, err = printForeign(ctx, out, all)
	return err
}

// leftovers are findings that say that kube-proxy's rules are still in force.
func leftovers(fs []flow.Finding) error {
	var errs []error
	for _, f := range fs {
		if f.Code == flow.ModeLeftover {
			errs = append(errs, errors.New(f.Cause))
		}
	}
	return errors.Join(errs...)
}

// firstView is the first complete view of the cluster.
func firstView(ctx context.Context, c cluster.Clients, log *slog.Logger) (*model.Snapshot, error) {
	ctx, stop := context.WithTimeout(ctx, time.Minute)
	defer stop()
	var first *model.Snapshot
	w := &cluster.Watcher{Clients: c, Log: log, Kinds: []cluster.Kind{cluster.Services, cluster.EndpointSlices, cluster.Nodes, cluster.ServiceCIDRs}}
	err := w.Run(ctx, func(s *model.Snapshot) {
		if first == nil {
			first = s
			stop()
		}
	})
	if first == nil {
		return nil, fmt.Errorf("no view of the cluster: %w", err)
	}
	return first, nil
}

func newTakeoverRollback() *cobra.Command {
	dir := ""
	c := &cobra.Command{
		Use: "rollback", Short: "Put kube-proxy's rules back in force, then remove podway's", Args: cobra.NoArgs,
		Long: `Puts back what apply took out, as it was then, and removes the rules of podway's service proxy. Start kube-proxy again
afterwards: it brings its rules up to date. End podway proxy (or podway node's hop proxy) before.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return rollback(cmd.Context(), cmd.OutOrStdout(), dir) },
	}
	dirOf(c.Flags(), &dir)
	return c
}

func rollback(ctx context.Context, out io.Writer, dir string) error {
	parts, err := agent.Leftovers(ctx, agent.CleanupOptions{}, true) // before: in mode iptables the chains have the same names
	if err != nil {
		return err
	}
	if err := inUse(filepath.Join("/run/podway", "agent.sock"), nil); err != nil {
		return exitWith(ExitBroken, err)
	}
	back := false
	for _, k := range agent.KubeProxies(nil, dir) {
		found, err := k.PutBack(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", k.Name(), err)
		}
		if back = back || found; found {
			fmt.Fprintf(out, "%s is in force again\n", k.Name())
		}
	}
	if !back {
		return exitWith(ExitBroken, fmt.Errorf("nothing was taken out on this node, or it was forgotten (%s): podway's rules stay", dir))
	}
	return removeParts(ctx, out, parts, false)
}
