package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/podway/podway/deploy"
	"github.com/podway/podway/internal/hop/proxy/config"
	"github.com/podway/podway/internal/lab"
	"github.com/podway/podway/internal/lab/spec"
)

// labDir is where the lab is kept: --dir, the environment, or the default.
func labDir(flag string) string {
	if flag != "" {
		return flag
	}
	if env := os.Getenv(lab.DirVariable); env != "" {
		return env
	}
	return lab.DefaultDir
}

// dirFlag adds --dir, which every command of the lab has.
func dirFlag(c *cobra.Command) *string {
	return c.Flags().String("dir", "", "the cluster's folder (default $"+lab.DirVariable+" or "+lab.DefaultDir+")")
}

// labPool are the addresses on the nodes' network that LoadBalancer Services get.
const labPool = "10.90.0.200-10.90.0.250"

// labManifests makes what `podway up` applies: podway's own deployment, with the lab's addresses and mode of the service
// proxy.
func labManifests(c spec.Cluster) ([]byte, error) { return deploy.Manifests(labValues(c.ProxyMode)) }

func labValues(proxyMode string) deploy.Options {
	return deploy.Options{
		APIServer:       fmt.Sprintf("%s:%d", spec.APIServerAddress, spec.APIServerPort),
		ClusterDomain:   spec.ClusterDomain,
		ClusterCIDRs:    spec.PodNetwork,
		ServiceCIDRs:    spec.ServiceNetwork,
		ClusterDNS:      spec.ClusterDNS,
		Pool:            []string{labPool},
		ProxyMode:       proxyMode,
		KubernetesNames: "true",
	}
}

func newUp() *cobra.Command {
	var o lab.Options
	c := &cobra.Command{
		Use:   "up",
		Short: "Run a real cluster on this machine, with podway in it",
		Long: `Runs a real Kubernetes cluster on this machine: etcd, API server, controller manager and scheduler, and nodes made of
namespaces with a kubelet and containerd each. podway's images are loaded and its manifests applied. Nothing is added
to the host's network, and nothing is written outside the cluster's folder. It needs root, containerd and runc.

Running it again repairs what is dead, loads images that were built anew, and applies the manifests again.`,
		Example: `  podway up
  podway up --nodes 3 --networking none
  podway kubectl get pods -A
  podway exec client -- curl http://10.90.0.11:30080`,
		Args: cobra.NoArgs,
	}
	dir := dirFlag(c)
	f := c.Flags()
	f.IntVar(&o.Nodes, "nodes", 0, "number of nodes (default 2)")
	f.StringVar(&o.Kubernetes, "kubernetes-binary", "", "path of podway-lab (default: beside podway)")
	f.StringVar(&o.Networking, "networking", "", "who makes pod network and Services: podway, or none: bring your own (default podway)")
	f.StringVar(&o.UpstreamDNS, "upstream-dns", "", "name server for names outside the cluster (default none)")
	f.IntVar(&o.Port, "port", 0, fmt.Sprintf("port of the API server on 127.0.0.1; the next free one when it is taken (default %d)", lab.DefaultPort))
	f.BoolVar(&o.OnlyRefresh, "refresh", false, "load podway's images and apply its manifests again in the cluster that runs; start nothing")
	only := f.Bool("manifests-only", false, "print the manifests that would be applied; start nothing")
	proxyOnly := f.Bool("proxy-only", false, "with --manifests-only: print those of the service proxy alone, in kube-proxy's place (docs/proxy.md)")
	mode := f.String("proxy-mode", os.Getenv("PODWAY_PROXY_MODE"), "mode of the service proxy: "+strings.Join(config.Modes, ", ")+"; empty = "+config.Modes[0]+" ($PODWAY_PROXY_MODE)")
	values(c, "networking", spec.NetworkingPodway, spec.NetworkingNone)
	values(c, "proxy-mode", config.Modes...)
	f.DurationVar(&o.Wait, "wait", 3*time.Minute, "how long it may take until everything is ready")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		o.Dir, o.ProxyMode = labDir(*dir), *mode
		if err := checkUp(o); err != nil {
			return err
		}
		if f.Changed("nodes") && o.Nodes == 0 {
			return usage("--nodes 0: want 1 to %d", spec.MaxNodes)
		}
		if *mode != "" && !slices.Contains(config.Modes, *mode) {
			return usage("--proxy-mode %q: want %s", *mode, strings.Join(config.Modes, ", "))
		}
		if *only {
			make := deploy.Manifests
			if *proxyOnly {
				make = deploy.ProxyManifests
			}
			manifests, err := make(labValues(*mode))
			if err == nil {
				_, err = cmd.OutOrStdout().Write(manifests)
			}
			return err
		}
		if err := lab.Up(cmd.Context(), o, labManifests, cmd.OutOrStdout()); err != nil {
			return asExit(err)
		}
		return sayHow(cmd.OutOrStdout(), o.Dir, o.Dir != lab.DefaultDir)
	}
	return c
}

func checkUp(o lab.Options) error {
	if o.Nodes < 0 || o.Nodes > spec.MaxNodes {
		return usage("--nodes %d: want 1 to %d", o.Nodes, spec.MaxNodes)
	}
	if o.Networking != "" && o.Networking != spec.NetworkingPodway && o.Networking != spec.NetworkingNone {
		return usage("--networking %q: want %s or %s", o.Networking, spec.NetworkingPodway, spec.NetworkingNone)
	}
	if o.UpstreamDNS != "" && !isAddress(o.UpstreamDNS) {
		return usage("--upstream-dns %q: want an IP address", o.UpstreamDNS)
	}
	if o.Port < 0 || o.Port > 65535 {
		return usage("--port %d: no such port", o.Port)
	}
	return nil
}

// sayHow prints how the cluster is used.
func sayHow(out io.Writer, dir string, named bool) error {
	c, err := spec.Load(dir)
	if err != nil {
		return err
	}
	flag := ""
	if named {
		flag = " --dir " + dir
	}
	_, err = fmt.Fprintf(out, `
export KUBECONFIG=%s        # for any client; the API server is %s
podway kubectl%s get pods -A
podway exec%s node-1 -- ip route     # or in: outside, client (%s, routed through outside)
podway down%s
`, c.Kubeconfig(), c.HostServer(), flag, flag, spec.ClientAddress, flag)
	return err
}

// newLabHidden are the commands by which podway starts itself.
func newLabHidden() []*cobra.Command {
	var out []*cobra.Command
	for _, name := range lab.Hidden {
		out = append(out, &cobra.Command{
			Use: name, Hidden: true, DisableFlagParsing: true,
			RunE: func(_ *cobra.Command, args []string) error { return lab.RunHidden(name, args) },
		})
	}
	return out
}

// asExit makes a program's exit code podway's own, without a word of ours; a program that could not be started has a
// shell's codes, a wrong argument that of wrong usage.
func asExit(err error) error {
	if code, ok := errors.AsType[lab.Exit](err); ok {
		return exitWith(int(code), nil)
	}
	if n, ok := errors.AsType[*lab.NotStarted](err); ok {
		return exitWith(n.Code, err)
	}
	if _, ok := errors.AsType[*lab.Misuse](err); ok {
		return usage("%w", err)
	}
	return err
}
