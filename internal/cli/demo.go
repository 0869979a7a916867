package cli

import (
	"errors"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/demo"
	"github.com/podway/podway/internal/hop/proxy/config"
	"github.com/podway/podway/internal/lab/spec"
)

// demoDir keeps the demo's cluster apart from one that somebody works with.
const demoDir = "/var/lib/podway-demo"

func newDemo() *cobra.Command {
	var o demo.Options
	c := &cobra.Command{
		Use:   "demo",
		Short: "Start a cluster, send requests through every path, print the trace, tear down",
		Long: `Starts a real cluster on this machine as ` + "`podway up`" + ` does, in a folder of its own, sends requests through every path
(names, Services, node ports, LoadBalancer addresses, Ingress with TLS), prints the way of two of them, and tears the
cluster down. The exit code is 0 only if every request arrived.`,
		Example: `  podway demo
  podway demo --keep      # then: podway kubectl --dir ` + demoDir + ` -n demo get pods`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Nodes < 2 || o.Nodes > spec.MaxNodes {
				return usage("--nodes %d: want 2 to %d: one path leads from node to node", o.Nodes, spec.MaxNodes)
			}
			if o.Mode != "" && !slices.Contains(config.Modes, o.Mode) {
				return usage("--proxy-mode %q: want %s", o.Mode, strings.Join(config.Modes, ", "))
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			o.Podway, o.Out = self, cmd.OutOrStdout()
			err = demo.Run(cmd.Context(), o)
			if errors.Is(err, demo.ErrNotArrived) {
				return exitWith(ExitBroken, err)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.Dir, "dir", demoDir, "the demo cluster's folder")
	f.IntVar(&o.Nodes, "nodes", 2, "number of nodes, at least 2")
	f.StringVar(&o.Mode, "proxy-mode", os.Getenv("PODWAY_PROXY_MODE"), "mode of the service proxy, as for podway up ($PODWAY_PROXY_MODE)")
	values(c, "proxy-mode", config.Modes...)
	f.BoolVar(&o.Keep, "keep", false, "leave the cluster running")
	return c
}
