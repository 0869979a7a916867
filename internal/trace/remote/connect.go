// Package remote is how trace reaches a cluster from anywhere with a kubeconfig: it lists the objects, and asks the
// podway-node Pod of a node by exec. It writes nothing. It owns no judgement and no output.
package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/model"
)

// labKubeconfig is where `podway up` puts its kubeconfig, which is used when the user has none.
func labKubeconfig() string {
	return filepath.Join(cmp.Or(os.Getenv("PODWAY_LAB_DIR"), "/var/lib/podway-lab"), "kubeconfig")
}

// Options says which cluster.
type Options struct {
	Kubeconfig string // "" = $KUBECONFIG, ~/.kube/config, the lab's, or the cluster this runs in
	Context    string
	Namespace  string // "" = the context's, else default
}

// Cluster is a connection.
type Cluster struct {
	Clients   cluster.Clients
	Namespace string
	exec      execFunc
	server    string // URL of the API server
}

// Connect reads the kubeconfig; it does not call the API server yet.
func Connect(o Options) (*Cluster, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	if lab := labKubeconfig(); o.Kubeconfig == "" && !slices.ContainsFunc(rules.Precedence, exists) && exists(lab) {
		rules.ExplicitPath = lab
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: o.Context})
	config, err := loaded.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("which cluster? There is no --kubeconfig, no $KUBECONFIG, no ~/.kube/config, and no cluster of podway up at %s that this user may read; name one, start one (sudo podway up), or look at files with -f", labKubeconfig())
	}
	if err != nil {
		return nil, fmt.Errorf("kubeconfig: %w", err)
	}
	config.QPS, config.Burst, config.UserAgent = 100, 200, "podway-trace"
	c := &Cluster{Namespace: o.Namespace, exec: execOver(config), server: config.Host}
	if c.Namespace == "" {
		if c.Namespace, _, err = loaded.Namespace(); err != nil {
			return nil, fmt.Errorf("kubeconfig: %w", err)
		}
	}
	return c, c.clients(config)
}

func (c *Cluster) clients(config *rest.Config) (err error) {
	if c.Clients.Typed, err = kubernetes.NewForConfig(config); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	if c.Clients.Dynamic, err = dynamic.NewForConfig(config); err != nil {
		return fmt.Errorf("kubeconfig: %w", err)
	}
	return nil
}

// noWay reports whether this machine is no place for a client of the nodes: the API server is reached through a port of this
// machine alone, and none of its networks has a node in it, as for a cluster of podway up.
func (c *Cluster) noWay(s *model.Snapshot) bool {
	u, err := url.Parse(c.server)
	if err != nil {
		return false
	}
	if a, err := netip.ParseAddr(u.Hostname()); (err != nil || !a.IsLoopback()) && u.Hostname() != "localhost" {
		return false
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, o := range own {
		p, err := netip.ParsePrefix(o.String())
		if err != nil || p.Addr().IsLoopback() {
			continue
		}
		for n := range s.Nodes.Values() {
			if slices.ContainsFunc(n.Addrs, p.Masked().Contains) {
				return false
			}
		}
	}
	return s.Nodes.Len() > 0
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Load lists the cluster's objects. missing names the kinds that could not be listed.
func (c *Cluster) Load(ctx context.Context) (s *model.Snapshot, missing []string, err error) {
	s, missing, err = cluster.Load(ctx, c.Clients)
	if err != nil {
		return nil, nil, fmt.Errorf("list the cluster's objects: %w", err)
	}
	if s.Nodes.Len() == 0 && s.Services.Len() == 0 {
		return nil, nil, errors.New("list the cluster's objects: there is neither a Node nor a Service to see")
	}
	return s, missing, nil
}
