package cli

import (
	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/lab"
)

func newDown() *cobra.Command {
	c := &cobra.Command{
		Use:   "down",
		Short: "End the cluster that `podway up` runs",
		Long: `Ends the cluster on this machine: every process, mount, namespace, device and cgroup of it, however it was left.
What is in the cluster is kept for the next podway up, unless --delete is given.`,
		Args: cobra.NoArgs,
	}
	dir := dirFlag(c)
	remove := c.Flags().Bool("delete", false, "delete the cluster's folder too")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		return lab.Down(cmd.Context(), labDir(*dir), *remove, cmd.OutOrStdout())
	}
	return c
}
