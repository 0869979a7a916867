package cli

import (
	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/doctor"
)

func newDoctor() *cobra.Command {
	var f clusterFlags
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at every Service, Ingress and node, and report each cause once",
		Long: `Follows the way to every Service and Ingress as the cluster declares it, asks every node how it is, and reports each
cause once, with what it hits and how to mend it. It reads and never writes.

Exits with 0 when nothing is wrong, 1 when something is broken, 2 when that could not be told, 3 for wrong arguments.`,
		Args: atMost(0),
	}
	f.register(c)
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		v, err := f.open(cmd.Context())
		if err != nil {
			return err
		}
		declared, err := v.declared()
		if err != nil {
			return usage("%w", err)
		}
		o := doctor.Options{Missing: v.missing, Pods: v.settings.ClusterCIDRs, Services: v.settings.ServiceCIDRs}
		if v.cluster != nil {
			agents := v.cluster.Agents(cmd.Context(), v.snapshot)
			defer agents.Close()
			defer waiting(cmd.ErrOrStderr())()
			o.Status, o.Sockets = agents.Layers(false).Status, agents.PodSockets
		}
		r := doctor.Examine(cmd.Context(), v.snapshot, declared, o)
		if f.output == "json" {
			if err := printJSON(cmd.OutOrStdout(), r); err != nil {
				return err
			}
		} else {
			r.Text(cmd.OutOrStdout(), colours(cmd.OutOrStdout()))
		}
		if r.Exit != ExitOK {
			return exitWith(r.Exit, nil)
		}
		return nil
	}
	return c
}
