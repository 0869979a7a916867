package cli

import (
	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/trace/ask"
	"github.com/podway/podway/internal/trace/probe"
	"github.com/podway/podway/internal/trace/sockets"
)

// newAgent is what `podway trace` runs by exec in podway's own Pods. People never need it.
func newAgent() *cobra.Command {
	c := &cobra.Command{Use: "agent", Short: "The other end of podway trace, in podway's Pods", Hidden: true, Args: cobra.NoArgs}
	socket := ask.SocketPath
	asking := &cobra.Command{
		Use:   "ask",
		Short: "Pass JSON requests from stdin to the podway process of this Pod, and its answers to stdout",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask.Pipe(cmd.Context(), socket, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	asking.Flags().StringVar(&socket, "socket", socket, "where the process listens")
	probing := &cobra.Command{
		Use:   "probe",
		Short: "Send the probes that stdin asks for, as JSON, and answer on stdout",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return probe.Serve(cmd.Context(), sockets.Procs(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	idle := &cobra.Command{
		Use:   "idle",
		Short: "Wait: the container is there for probes that are run in it",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			<-cmd.Context().Done()
			return nil
		},
	}
	c.AddCommand(asking, probing, idle)
	return c
}
