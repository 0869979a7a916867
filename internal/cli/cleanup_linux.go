package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/trace/ask"
)

func newCleanup() *cobra.Command {
	dry, force := false, false
	o := agent.CleanupOptions{RunDir: filepath.Dir(ask.SocketPath), Podnet: podnet.Options{ConfigPath: podnet.DefaultConfigPath, StoreDir: podnet.DefaultStoreDir}}
	c := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove what podway made on this node, and nothing else",
		Long: `Removes the rules of the service proxy in every mode, the Pod network's routes, devices and rules, and podway's files, told
by podway's own names; what belongs to others stays, kube-proxy's rules too (see podway takeover). IP forwarding and the
settings of connection tracking stay as they are. Traffic to Services fails from then on unless another proxy runs.

It refuses while podway runs on this node, which would make everything again, and while Pods of podway's network run here;
--force goes on.`,
		Example: `  podway cleanup --dry-run
  podway cleanup`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return cleanup(cmd.Context(), cmd.OutOrStdout(), o, dry, force)
		},
	}
	f := c.Flags()
	f.BoolVar(&dry, "dry-run", false, "print what would be removed; remove nothing")
	f.BoolVar(&force, "force", false, "go on though podway runs, or though Pods lose their network")
	f.StringVar(&o.CNIBin, "cni-bin-dir", "/opt/cni/bin", "where the CNI plugin is")
	f.StringVar(&o.CNIConf, "cni-conf-dir", "/etc/cni/net.d", "where the CNI configuration is")
	return asRoot(c)
}

func cleanup(ctx context.Context, out io.Writer, o agent.CleanupOptions, dry, force bool) error {
	parts, err := agent.Leftovers(ctx, o, false)
	if err != nil {
		return err
	}
	if !dry && !force {
		if err := inUse(filepath.Join(o.RunDir, filepath.Base(ask.SocketPath)), parts); err != nil {
			return exitWith(ExitBroken, err)
		}
	}
	return removeParts(ctx, out, parts, dry)
}

// inUse says what cleaning up would break or what would undo it.
func inUse(socket string, parts []agent.Part) error {
	if c, err := net.DialTimeout("unix", socket, time.Second); err == nil {
		_ = c.Close()
		return fmt.Errorf("podway runs on this node (%s answers) and would make everything again: end it first, or give --force", socket)
	}
	for _, p := range parts {
		if p.Pods > 0 {
			return fmt.Errorf("%s would lose their network: drain the node first, or give --force", plural(p.Pods, "Pod"))
		}
	}
	return nil
}

func removeParts(ctx context.Context, out io.Writer, parts []agent.Part, dry bool) error {
	if len(parts) == 0 {
		_, err := fmt.Fprintln(out, "nothing of podway is on this node")
		return err
	}
	word := "removed"
	if dry {
		word = "would remove"
	}
	var errs []error
	for _, p := range parts {
		if !dry {
			if err := p.Remove(ctx); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", p.Name, err))
				continue
			}
		}
		for _, line := range p.Has {
			fmt.Fprintf(out, "%s  %s: %s\n", word, p.Name, line)
		}
	}
	return errors.Join(errs...)
}

// cleanProxy is `podway proxy --cleanup`: the service proxy alone.
func cleanProxy(cmd *cobra.Command) error {
	parts, err := agent.Leftovers(cmd.Context(), agent.CleanupOptions{}, true)
	if err != nil {
		return err
	}
	return removeParts(cmd.Context(), cmd.OutOrStdout(), parts, false)
}
