package cli

import (
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/lab"
	"github.com/podway/podway/internal/lab/spec"
)

func newExec() *cobra.Command {
	c := &cobra.Command{
		Use:   "exec NODE|outside|client|control-plane -- COMMAND [ARGS...]",
		Short: "Run a command in a node of `podway up`, or beside the cluster",
		Long: `Runs a command inside a node, with the node's files, processes and network; or with the network of "outside" (a host
on the nodes' network that is no node), "client" (a host that reaches the nodes through outside's router), or
"control-plane". The exit code is the command's.`,
		Example: `  podway exec node-1 -- nft list ruleset
  podway exec client -- curl -s http://10.90.0.200/`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) < 2 {
				return usage("say where, and what to run there: podway exec node-1 -- ip route")
			}
			return nil
		},
	}
	dir := dirFlag(c)
	c.Flags().SetInterspersed(false)
	c.ValidArgsFunction = func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return places(labDir(*dir)), cobra.ShellCompDirectiveNoFileComp
	}
	c.RunE = func(cmd *cobra.Command, args []string) error {
		where, argv := args[0], args[1:]
		if argv[0] == "--" {
			argv = argv[1:]
		}
		if len(argv) == 0 {
			return usage("exec %s: no command", where)
		}
		return asExit(lab.Exec(cmd.Context(), labDir(*dir), where, argv))
	}
	return c
}

// places are where a command can run: the nodes of the cluster in dir, and beside it.
func places(dir string) []string {
	out := []string{lab.Outside, lab.Client, lab.ControlPlane}
	if c, err := spec.Load(dir); err == nil {
		for i := range c.Nodes {
			out = append(out, fmt.Sprintf("node-%d", i+1))
		}
	}
	return out
}

func isAddress(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}
