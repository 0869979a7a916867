package cli

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/control/events"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/proxy/config"
	"github.com/podway/podway/internal/hop/proxy/health"
	"github.com/podway/podway/internal/kernel/oom"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/observe"
)

// proxyFlags are those of `podway proxy`: kube-proxy's, and few of podway's own.
type proxyFlags struct {
	daemon
	kubeProxyFlags
	socket string
}

// component is the name in Events.
const component = "podway-proxy"

func newProxy() *cobra.Command {
	var p proxyFlags
	c := &cobra.Command{
		Use:   "proxy",
		Short: "Run the service proxy alone, in kube-proxy's place, with kube-proxy's flags and configuration",
		Long: `Runs the service proxy of one node and nothing else of podway, on any cluster. It takes kube-proxy's flags and its
configuration file (KubeProxyConfiguration v1alpha1) as they are; keys that nobody knows are refused by name, keys that
change nothing here are listed once in the log and in docs/proxy.md. When it ends, all rules stay.

It serves what kube-proxy serves: /healthz and /livez on port 10256, /metrics, /proxyMode and /configz on port 10249.`,
		Example: `  podway proxy --config /var/lib/kube-proxy/config.conf
  podway proxy --kubeconfig k.yaml --proxy-mode nftables --cluster-cidr 10.244.0.0/16
  podway proxy --cleanup`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return p.run(cmd) },
	}
	p.kubeProxyFlags.add(c.Flags())
	own := func(to *string, name, value, help string) {
		c.Flags().StringVar(to, name, value, help)
		_ = c.Flags().SetAnnotation(name, podwayFlag, []string{"true"}) // the flag is there
	}
	own(&p.apiServer, "apiserver", os.Getenv("PODWAY_APISERVER"), "host:port of the API server, reached without the service proxy ($PODWAY_APISERVER)")
	own(&p.serviceCIDRs, "service-cidrs", os.Getenv("PODWAY_SERVICE_CIDRS"), "ranges of Service addresses, comma-separated beside those of the ServiceCIDR objects ($PODWAY_SERVICE_CIDRS)")
	own(&p.socket, "socket", "", "where podway trace asks this process; empty = nowhere")
	return c
}

func (p *proxyFlags) run(cmd *cobra.Command) error {
	r, err := p.resolve()
	if err != nil {
		return err
	}
	if p.writeTo != "" {
		return p.write(r)
	}
	if p.cleanup {
		return cleanProxy(cmd)
	}
	p.logFormat, p.logLevel = r.LogFormat, "info"
	if r.Verbosity >= 4 {
		p.logLevel = "debug"
	}
	log, err := p.logger(cmd)
	if err != nil {
		return err
	}
	p.say(log, r)
	if err := modeThere(r.Mode); err != nil {
		return err
	}
	node := r.nodeName()
	if p.initOnly {
		return prepare(cmd.Context(), log, r, node)
	}
	if err := oom.Adjust(r.OOMScore); err != nil {
		log.Info("score for the end of memory not set", "err", err)
	}
	return p.serveProxy(cmd.Context(), log, r, node)
}

// nodeName is this node's name in the cluster.
func (r *resolved) nodeName() string {
	hostname, _ := os.Hostname()
	if r.Node != "" {
		return r.Node
	}
	return env("NODE_NAME", strings.ToLower(hostname))
}

// say lists once what the operator should know of the configuration.
func (k *kubeProxyFlags) say(log *slog.Logger, r *resolved) {
	for _, s := range r.Remarks {
		log.Warn("configuration", "remark", s)
	}
	for _, key := range r.Unused {
		log.Info("key of the configuration changes nothing", "key", key.Path, "why", key.Does)
	}
	if len(r.Ignored) > 0 {
		log.Warn("flags are ignored beside --config", "flags", strings.Join(r.Ignored, " "), "file", k.file)
	}
}

// modeThere says clearly when a mode of kube-proxy is not in this program.
func modeThere(mode string) error {
	for _, m := range agent.ProxyModes() {
		if m == mode {
			return nil
		}
	}
	return usage("proxy mode %s is not in this build; there are %s", mode, strings.Join(agent.ProxyModes(), ", "))
}

// prepare is --init-only: what only a privileged container may do.
func prepare(ctx context.Context, log *slog.Logger, r *resolved, node string) error {
	for _, f := range r.Tracking.Set(sysctl.Open(nil), node, sysctl.Processors()) {
		log.Warn("finding", "code", string(f.Code), "object", f.Object, "cause", f.Cause, "fix", f.Fix)
	}
	if err := podnet.AllowForwarding(); err != nil {
		return err
	}
	return agent.Prepare(ctx, r.Mode, node, r.Settings, log)
}

func (p *proxyFlags) serveProxy(ctx context.Context, log *slog.Logger, r *resolved, node string) error {
	clients, err := p.connect(r.Client)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	told := events.New(ctx, clients.Typed, component, node)
	follows := health.NewNode(r.HealthTimeout)
	metrics := observe.NewRegistry()
	hops, err := p.hops(log, r, node, agent.Options{Metrics: metrics, Health: follows, Event: func(n model.Name, reason, note string) {
		told.Service(n, reason, "Listen", note)
	}})
	if err != nil {
		return err
	}
	watcher := &cluster.Watcher{Clients: clients, Log: log, Kinds: []cluster.Kind{cluster.Services, cluster.EndpointSlices, cluster.Nodes, cluster.ServiceCIDRs}}
	a := &agent.Agent{Source: watcher, Hops: hops, Node: node, Log: log, Metrics: metrics}
	follow := http.NewServeMux()
	follow.Handle("/", follows.Handler())
	follow.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { answerReady(w, a) })
	shown := observe.ProxyMetrics{Metrics: metrics, Mode: r.Mode, Config: r.Given, Group: "kubeproxy.config.k8s.io", Profiling: r.Profiling}
	for _, e := range []observe.Endpoint{
		{Name: "healthz", Addr: r.Healthz, Handler: follow, Failed: func(err error) {
			told.Node(true, "FailedToStartProxierHealthcheck", "StartKubeProxy", err.Error())
		}},
		{Name: "metrics", Addr: r.Metrics, Handler: shown.Handler(), Failed: func(err error) {
			told.Node(true, "FailedToStartMetricServer", "StartKubeProxy", err.Error())
		}},
	} {
		e.HardFail, e.Log = r.HardFail, log
		g.Go(func() error { return e.Run(ctx) })
	}
	if p.file != "" {
		g.Go(func() error { return watchFile(ctx, p.file, r.data) })
	}
	told.Node(false, "Starting", "StartKubeProxy", "")
	log.Info("service proxy starts", "node", node, "mode", r.Mode, "version", version)
	p.serve(ctx, g, serving{agent: a, watcher: watcher, hops: hops, node: node, socket: p.socket, metrics: metrics, log: log})
	g.Go(func() error { return a.Run(ctx) })
	return finished(ctx, g.Wait())
}

// answerReady is /readyz: 200 once the rules of a complete view are in the kernel.
func answerReady(w http.ResponseWriter, a *agent.Agent) {
	if err := a.Ready(); err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ok")
}

// connect makes clients of the API server as the configuration says.
func (p *proxyFlags) connect(c config.Client) (cluster.Clients, error) {
	p.kubeconfig = c.Kubeconfig
	return p.clientsWith(func(cfg *rest.Config) {
		cfg.ContentType, cfg.AcceptContentTypes, cfg.QPS, cfg.Burst = c.ContentType, c.AcceptContentTypes, c.QPS, c.Burst
		if p.master != "" {
			cfg.Host = p.master
		}
	})
}

// hops makes the hop proxy with all that the configuration says.
func (p *proxyFlags) hops(log *slog.Logger, r *resolved, node string, o agent.Options) (_ []hop.Hop, err error) {
	o.Node, o.ProxyMode, o.Proxy, o.Tracking, o.Log = node, r.Mode, r.Settings, &r.Tracking, log
	if o.ServiceCIDRs, err = prefixes("service-cidrs", p.serviceCIDRs); err != nil {
		return nil, err
	}
	return agent.Hops([]string{"proxy"}, o)
}

const fileEvery = 5 * time.Second

// watchFile ends with an error when the configuration is no longer what was read, as kube-proxy does: whoever started this
// process starts it again.
func watchFile(ctx context.Context, path string, read []byte) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(fileEvery):
		}
		if now, err := os.ReadFile(path); err == nil && !bytes.Equal(now, read) {
			return fmt.Errorf("%s was changed; start again to use it", path)
		}
	}
}
