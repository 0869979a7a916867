package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/observe"
)

// daemon holds the flags that node, controller and ingress share. Each flag's default is an environment variable, so
// that one ConfigMap serves all of them.
type daemon struct {
	kubeconfig, apiServer string
	domain                string
	clusterCIDRs          string
	serviceCIDRs          string
	health                string
	logFormat, logLevel   string
}

func (d *daemon) flags(c *cobra.Command, health string) {
	f := c.Flags()
	f.StringVar(&d.kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig of the cluster (default: the Pod's service account)")
	f.StringVar(&d.apiServer, "apiserver", os.Getenv("PODWAY_APISERVER"), "host:port of the API server, reached without the service proxy ($PODWAY_APISERVER)")
	f.StringVar(&d.domain, "cluster-domain", env("PODWAY_CLUSTER_DOMAIN", "cluster.local"), "domain of the cluster's names ($PODWAY_CLUSTER_DOMAIN)")
	f.StringVar(&d.clusterCIDRs, "cluster-cidrs", os.Getenv("PODWAY_CLUSTER_CIDRS"), "ranges of Pod addresses, comma-separated ($PODWAY_CLUSTER_CIDRS)")
	f.StringVar(&d.serviceCIDRs, "service-cidrs", os.Getenv("PODWAY_SERVICE_CIDRS"), "ranges of Service addresses, comma-separated ($PODWAY_SERVICE_CIDRS)")
	f.StringVar(&d.health, "health-address", health, "address of /healthz, /readyz and /metrics; empty = none")
	f.StringVar(&d.logFormat, "log-format", "text", "text or json")
	f.StringVar(&d.logLevel, "log-level", "info", "debug, info, warn or error")
}

func env(name, otherwise string) string {
	if v := os.Getenv(name); v != "" {
		return v
	}
	return otherwise
}

// logger makes the log, also client-go's.
func (d *daemon) logger(c *cobra.Command) (*slog.Logger, error) {
	log, err := observe.NewLogger(c.ErrOrStderr(), d.logFormat, d.logLevel)
	if err != nil {
		return nil, usage("%w", err)
	}
	slog.SetDefault(log)
	klog.SetSlogLogger(log.With("component", "client-go"))
	return log, nil
}

// config is how to reach the API server.
func (d *daemon) config() (*rest.Config, error) {
	var cfg *rest.Config
	var err error
	if d.kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", d.kubeconfig)
	} else {
		cfg, err = rest.InClusterConfig()
	}
	if err != nil {
		return nil, fmt.Errorf("no way to the API server: %w (outside a Pod, give --kubeconfig)", err)
	}
	if d.apiServer != "" {
		cfg.Host = "https://" + strings.TrimPrefix(d.apiServer, "https://")
	}
	cfg.UserAgent = "podway"
	cfg.ContentType, cfg.AcceptContentTypes = "application/vnd.kubernetes.protobuf", "application/vnd.kubernetes.protobuf,application/json"
	cfg.QPS, cfg.Burst = 200, 400
	cfg.WarningHandler = rest.NoWarnings{} // v1 Endpoints are deprecated and still written: nobody can act on the warning
	return cfg, nil
}

func (d *daemon) clients() (cluster.Clients, error) { return d.clientsWith(func(*rest.Config) {}) }

// clientsWith makes clients of a configuration that is changed before.
func (d *daemon) clientsWith(change func(*rest.Config)) (cluster.Clients, error) {
	cfg, err := d.config()
	if err != nil {
		return cluster.Clients{}, err
	}
	change(cfg)
	contact := &cluster.Contact{}
	cfg.Wrap(contact.Wrap)
	cfg.Wrap((&cluster.Patience{Log: slog.Default()}).Wrap)
	typed, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return cluster.Clients{}, fmt.Errorf("make API client: %w", err)
	}
	plain := rest.CopyConfig(cfg)
	plain.ContentType, plain.AcceptContentTypes = "", "" // custom resources have no protobuf form
	dyn, err := dynamic.NewForConfig(plain)
	if err != nil {
		return cluster.Clients{}, fmt.Errorf("make API client: %w", err)
	}
	return cluster.Clients{Typed: typed, Dynamic: dyn, Contact: contact}, nil
}

// prefixes reads a comma-separated list of CIDRs.
func prefixes(flag, list string) (out []netip.Prefix, err error) {
	for _, s := range words(list) {
		p, err := netip.ParsePrefix(s)
		if err != nil {
			return nil, usage("--%s: %q is no CIDR such as 10.96.0.0/16", flag, s)
		}
		out = append(out, p.Masked())
	}
	return out, nil
}

// listens reads a comma-separated list of ADDRESS:PORT; :PORT is every IPv4 and IPv6 address.
func listens(flag, list string) (out []netip.AddrPort, err error) {
	for _, s := range words(list) {
		if strings.HasPrefix(s, ":") {
			s = "[::]" + s
		}
		a, err := netip.ParseAddrPort(s)
		if err != nil {
			return nil, usage("--%s: %q is no ADDRESS:PORT", flag, s)
		}
		out = append(out, a)
	}
	return out, nil
}

func words(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// finished makes the end that was asked for a good one.
func finished(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
