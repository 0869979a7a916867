package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/lab"
)

func newStatus() *cobra.Command {
	c := &cobra.Command{
		Use:   "status",
		Short: "How the cluster of `podway up` is: processes of the control plane and the nodes, restarts, memory",
		Long:  "Shows every process of the cluster on this machine; what Kubernetes says of its nodes: podway kubectl get nodes.\nExits with 0 when all is well, 1 when something is not, 2 when nothing runs.",
		Args:  cobra.NoArgs,
	}
	dir := dirFlag(c)
	output := c.Flags().StringP("output", "o", "text", "text or json")
	values(c, "output", "text", "json")
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if *output != "text" && *output != "json" {
			return usage("-o %q: want text or json", *output)
		}
		r, err := lab.Inspect(cmd.Context(), labDir(*dir))
		if err != nil {
			return exitWith(ExitUnknown, err)
		}
		if *output == "json" {
			e := json.NewEncoder(cmd.OutOrStdout())
			e.SetIndent("", "  ")
			err = e.Encode(r)
		} else {
			err = printReport(cmd.OutOrStdout(), r)
		}
		if err != nil {
			return err
		}
		switch {
		case r.Leftover > 0 || len(r.Missing) > 0:
			return exitWith(ExitBroken, nil)
		case !r.Running:
			return exitWith(ExitUnknown, nil)
		}
		return nil
	}
	return c
}

func printReport(out io.Writer, r lab.Report) error {
	if !r.Running {
		if r.Leftover > 0 {
			_, err := fmt.Fprintf(out, "the supervisor of %s is dead, and %d of its processes run on; podway up starts again, podway down ends them\n", r.Dir, r.Leftover)
			return err
		}
		_, err := fmt.Fprintf(out, "nothing runs for %s\n", r.Dir)
		return err
	}
	fmt.Fprintf(out, "%s, up since %s, %s in all\nkubeconfig %s, API server %s\n\n",
		r.Dir, r.Since.Format(time.DateTime), megabytes(r.Memory), r.Kubeconfig, r.Server)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WHERE\tPROCESS\tSTATE\tPID\tMEMORY\tRESTARTS\tLAST END")
	for _, p := range r.Rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\t%s\n", p.Where, p.Name, p.State, p.PID, megabytes(p.Memory), p.Restarts, p.LastExit)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, m := range r.Missing {
		fmt.Fprintln(out, "!", m)
	}
	return nil
}

func megabytes(bytes int64) string { return fmt.Sprintf("%d MB", bytes>>20) }
