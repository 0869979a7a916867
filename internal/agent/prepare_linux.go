package agent

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/ebpf"
	"github.com/podway/podway/internal/hop/proxy/iptables"
	"github.com/podway/podway/internal/kernel/bpf"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// Prepare does for the service proxy, in a privileged process and before the agent starts, what the agent may not do: it
// writes the kernel settings that a mode needs, and makes the node ready for the mode.
func Prepare(ctx context.Context, mode, node string, s proxy.Settings, log *slog.Logger) error {
	if err := proxy.BeLiberal(sysctl.Open(nil)); err != nil {
		log.Warn("kernel setting", "hop", "proxy", "err", err) // the agent makes a finding of it
	}
	if mode == "iptables" && s.NodePorts.Loopback {
		if err := iptables.In(nil).OpenLoopback(ctx, node); err != nil {
			return fmt.Errorf("agent: prepare mode iptables: %w", err)
		}
	}
	return prepareMode(ctx, mode, log)
}

// prepareMode mounts a BPF file system for mode ebpf. In any other mode the agent has no right to the programs that mode ebpf
// left at the sockets, so they end here; that mode's rules for packets serve until the new ones are proven.
func prepareMode(ctx context.Context, mode string, log *slog.Logger) error {
	if mode == "ebpf" {
		mounted, err := bpf.MountFS()
		if err != nil {
			return fmt.Errorf("agent: prepare mode ebpf: %w", err)
		}
		if mounted {
			log.Info("a BPF file system is mounted", "hop", "proxy")
		}
		return nil
	}
	ended, err := ebpf.Leave(ctx, ebpf.FromEnvironment())
	if err != nil {
		return fmt.Errorf("agent: leave mode ebpf: %w", err)
	}
	if ended {
		log.Info("the programs of mode ebpf are gone; its rules for packets serve until those of the new mode do", "hop", "proxy", "to", mode)
	}
	return nil
}
