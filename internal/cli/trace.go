package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/remote"
)

// clusterFlags says which cluster, or which files, a command looks at.
type clusterFlags struct {
	remote.Options
	files  []string
	output string
	domain string
}

func (f *clusterFlags) register(c *cobra.Command) {
	c.Flags().StringVar(&f.Kubeconfig, "kubeconfig", "", "kubeconfig file (default: $KUBECONFIG, ~/.kube/config, the cluster of podway up)")
	c.Flags().StringVar(&f.Context, "context", "", "context of the kubeconfig")
	c.Flags().StringVarP(&f.Namespace, "namespace", "n", "", "namespace of bare names (default: the context's)")
	c.Flags().StringArrayVarP(&f.files, "filename", "f", nil, "look at the objects in this file or folder instead of a cluster, more than once for several: everything is predicted")
	c.Flags().StringVarP(&f.output, "output", "o", "text", "text or json")
	values(c, "output", "text", "json")
	c.Flags().StringVar(&f.domain, "cluster-domain", "", "domain of the cluster's names (default: as podway's ConfigMap says, else "+trace.DefaultDomain+")")
}

// view is a cluster's objects, and the way to its nodes when it is a live one.
type view struct {
	snapshot  *model.Snapshot
	cluster   *remote.Cluster // nil: files
	namespace string
	missing   []string
	settings  remote.Settings
}

// declared is the view of what the API says.
func (v *view) declared() (trace.View, error) {
	return declaredView(v.snapshot, settings{v.settings, v.lacks("TLS Secrets")})
}

// lacks reports whether objects of one of the kinds could not be listed.
func (v *view) lacks(kinds ...string) bool {
	return slices.ContainsFunc(v.missing, func(m string) bool {
		kind, _, _ := strings.Cut(m, ":")
		return slices.Contains(kinds, kind)
	})
}

// unseen makes unknown of what looks whole while objects that decide the way could not be listed.
func (v *view) unseen(r *trace.Report) {
	for _, m := range v.missing {
		r.NotChecked = append(r.NotChecked, "objects that could not be listed: "+m)
	}
	ingress := slices.ContainsFunc(r.Steps, func(s trace.ReportStep) bool { return s.Hop == trace.HopIngress })
	if r.Exit == trace.ExitOK && (v.lacks("Services", "EndpointSlices", "Nodes", "Pods") || ingress && v.lacks("Ingresses", "IngressClasses", "TLS Secrets")) {
		r.Exit, r.Result = trace.ExitUnknown, "unknown"
		r.Summary = "nothing broken was found, but not all objects could be seen: " + r.Summary
	}
}

func (f *clusterFlags) open(ctx context.Context) (*view, error) {
	if f.output != "text" && f.output != "json" {
		return nil, usage("output %q is neither text nor json", f.output)
	}
	if len(f.files) > 0 {
		s, err := cluster.LoadFolder(f.files...)
		if err != nil {
			return nil, usage("%w", err)
		}
		if s.Services.Len()+s.Ingresses.Len()+s.Nodes.Len()+s.Pods.Len()+s.Pools.Len()+s.Slices.Len() == 0 {
			return nil, exitWith(ExitUnknown, fmt.Errorf("there is nothing to look at in %s: no Service, Ingress, Pod, Node, EndpointSlice or AddressPool", strings.Join(f.files, ", ")))
		}
		ns := f.Namespace
		if ns == "" {
			ns = "default"
		}
		return &view{snapshot: s, namespace: ns, settings: remote.Settings{Domain: f.domain}}, nil
	}
	klog.SetSlogLogger(slog.New(slog.DiscardHandler)) // client-go tells of every exec that is ended
	c, err := remote.Connect(f.Options)
	if err != nil {
		return nil, exitWith(ExitUnknown, err)
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	s, missing, err := c.Load(ctx)
	if err != nil {
		return nil, exitWith(ExitUnknown, err)
	}
	settings := c.Settings(ctx)
	if f.domain != "" {
		settings.Domain = f.domain
	}
	return &view{snapshot: s, cluster: c, namespace: c.Namespace, missing: missing, settings: settings}, nil
}

type traceFlags struct {
	clusterFlags
	from, to, resolve, via string
	probe                  bool
}

// fanOut is how many nodes behind a Service are asked; the others are named as not checked.
const fanOut = 8

func newTrace() *cobra.Command {
	var f traceFlags
	c := &cobra.Command{
		Use:   "trace [FROM] TO | trace --from FROM --to TO",
		Short: "Follow one request hop by hop and name the broken step",
		Long: `Follows one request through name, address, ingress, Service, pod network and process, and compares for each what the
cluster declares, what the nodes have programmed and what is observed. It reads and never writes; only with --probe it
sends packets, from the client Pod's own network namespace.

FROM is pod/NAME, deploy/NAME (sts/, ds/), node/NAME or outside[=ADDRESS]; without it, any ready Pod of the namespace.
TO is a name or address with a port, a URL, or svc/NAME, pod/NAME:PORT, node/NAME:PORT.

Exits with 0 when the request arrives, 1 when a hop is broken, 2 when that could not be told, 3 for wrong arguments.`,
		Example: `  podway trace -n shop deploy/web --to http://cart/health
  podway trace --from outside=203.0.113.9 --to https://shop.example/foo
  podway trace -n shop pod/web cart:80 --probe
  podway trace -f ./manifests --from outside --to https://shop.example/`,
		Args: atMost(2),
		RunE: func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	f.register(c)
	c.Flags().StringVar(&f.from, "from", "", "who sends")
	c.Flags().StringVar(&f.to, "to", "", "what is asked for")
	c.Flags().BoolVar(&f.probe, "probe", false, "send real packets as well")
	c.Flags().StringVar(&f.resolve, "resolve", "", "use this address instead of looking the name up")
	c.Flags().StringVar(&f.via, "via", "", "from outside: the node where the request enters")
	return c
}

// atMost refuses more positional arguments than n as wrong usage.
func atMost(n int) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) > n {
			return usage("at most %d arguments, and there are %d: %s", n, len(args), strings.Join(args, " "))
		}
		return nil
	}
}

// arguments takes the positional forms: a lone argument is the target, unless --to is given.
func (f *traceFlags) arguments(args []string) error {
	switch {
	case len(args) == 2 && (f.from != "" || f.to != ""), len(args) == 1 && f.from != "" && f.to != "":
		return usage("FROM and TO are given twice: %s", strings.Join(args, " "))
	case len(args) == 2:
		f.from, f.to = args[0], args[1]
	case len(args) == 1 && f.to != "":
		f.from = args[0]
	case len(args) == 1:
		f.to = args[0]
	}
	if f.to == "" {
		return usage("what is asked for? give --to, for example --to http://cart/health")
	}
	if f.probe && len(f.files) > 0 {
		return usage("--probe needs a cluster, and -f looks at files only")
	}
	return nil
}

func (f *traceFlags) question() (trace.Question, error) {
	q := trace.Question{Namespace: f.Namespace, Target: f.to, Node: f.via, Limit: fanOut}
	if _, _, err := trace.ParseTarget(f.to); err != nil {
		return q, usage("%w", err)
	}
	if f.resolve != "" {
		a, err := netip.ParseAddr(f.resolve)
		if err != nil {
			return q, usage("--resolve %q: want an IP address, such as 10.96.0.7", f.resolve)
		}
		q.Resolve = a.Unmap()
	}
	return q, nil
}

func (f *traceFlags) run(cmd *cobra.Command, args []string) error {
	if err := f.arguments(args); err != nil {
		return err
	}
	q, err := f.question()
	if err != nil {
		return err
	}
	v, err := f.open(cmd.Context())
	if err != nil {
		return err
	}
	q.Namespace, q.Domain = v.namespace, v.settings.Domain
	x := trace.NewIndex(v.snapshot).PodRanges(v.settings.ClusterCIDRs)
	note, err := x.SetSender(&q, f.from)
	if err != nil {
		return usage("%w", err)
	}
	if f.via != "" && v.snapshot.Nodes.At(f.via) == nil {
		return usage("--via: there is no node %s", f.via)
	}
	declared, err := v.declared()
	if err != nil {
		return usage("%w", err)
	}
	p := x.Walk(cmd.Context(), q, declared)
	if p.Err != nil {
		return usage("%w", p.Err)
	}
	if v.cluster != nil {
		agents := v.cluster.Agents(cmd.Context(), v.snapshot)
		defer agents.Close()
		defer waiting(cmd.ErrOrStderr())()
		x.Compare(cmd.Context(), &p, agents.Layers(f.probe))
	}
	r := x.Report(p, v.cluster == nil)
	r.Note = note
	v.unseen(&r)
	return f.print(cmd.OutOrStdout(), r)
}

// waiting says, when the nodes take their time, what the command waits for. The function returned ends that.
func waiting(out io.Writer) (stop func()) {
	said := time.AfterFunc(waitSilent, func() {
		fmt.Fprintf(out, "podway: waiting for podway-node on the nodes, %s at most for each, all at once\n", remote.AskTimeout)
	})
	return func() { said.Stop() }
}

// waitSilent is how long nothing is said.
const waitSilent = 1500 * time.Millisecond

func (f *traceFlags) print(out io.Writer, r trace.Report) error {
	if f.output == "json" {
		if err := printJSON(out, r); err != nil {
			return err
		}
	} else {
		r.Text(out, colours(out))
	}
	if r.Exit != ExitOK {
		return exitWith(r.Exit, nil)
	}
	return nil
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("print: %w", err)
	}
	return nil
}

// colours are for terminals, unless the user wants none (no-color.org).
func colours(out io.Writer) trace.Colour {
	file, ok := out.(*os.File)
	if !ok || os.Getenv("NO_COLOR") != "" || os.Getenv("TERM") == "dumb" {
		return trace.Colour{}
	}
	if info, err := file.Stat(); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		return trace.Colour{}
	}
	return trace.Terminal
}
