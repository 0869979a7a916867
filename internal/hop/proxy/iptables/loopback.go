package iptables

import (
	"context"
	"errors"
	"fmt"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// routeLocalnet lets packets from 127.0.0.1 leave by another device than lo, which node ports there need. It also lets
// the network in to services of the host that listen there; the chain localnet keeps it out, and must be there before.
const routeLocalnet = "net/ipv4/conf/all/route_localnet"

// openLoopback sets routeLocalnet. Where only a privileged container may, that is a finding: all other addresses answer.
func (b *Backend) openLoopback(node string) error {
	b.found = nil
	if b.sysctl == nil {
		return nil
	}
	err := b.sysctl.Set(routeLocalnet, "1")
	if errors.Is(err, sysctl.ErrReadOnly) {
		about, _ := flow.CauseOf(flow.LoopbackClosed)
		b.found = []flow.Finding{{Code: flow.LoopbackClosed, Severity: flow.Warning, Object: "node " + node, Fix: about.Fix,
			Cause: fmt.Sprintf("Node ports of node %s do not answer at 127.0.0.1: %s is 0 and cannot be written here.", node, routeLocalnet)}}
		return nil
	}
	if err != nil {
		return fmt.Errorf("iptables: node ports at 127.0.0.1: %w", err)
	}
	return nil
}

// closeLoopback takes the setting back when this backend made it: the chain localnet is the mark by which a later process
// knows.
func (b *Backend) closeLoopback(have *Ruleset) error {
	b.found = nil
	if _, ours := have.table(kipt.IPv4, kipt.Filter).Chains[localnet]; b.sysctl == nil || !ours {
		return nil
	}
	if err := b.sysctl.Set(routeLocalnet, "0"); err != nil {
		return fmt.Errorf("iptables: node ports at 127.0.0.1: %w", err)
	}
	return nil
}

// Findings implements proxy.Finder.
func (b *Backend) Findings() []flow.Finding { return b.found }

// OpenLoopback makes node ports at 127.0.0.1 possible in a process that may write kernel settings, for one that may not:
// the chain localnet first, then the setting. Other rules stay as they are.
func (b *Backend) OpenLoopback(ctx context.Context, node string) error {
	d, err := b.host()
	if err != nil || !d.Has(kipt.IPv4) {
		return err
	}
	have, err := read(ctx, d, proxy.Node{Name: node})
	if err != nil {
		return err
	}
	if _, there := have.table(kipt.IPv4, kipt.Filter).Chains[localnet]; !there {
		s := sheet{is4: true}
		e := &edit{table: kipt.Filter, set: map[string]string{localnet: s.guardLoopback()}}
		for _, j := range localnetJumps {
			e.lines = append(e.lines, line{'I', j.rule()})
		}
		if err := d.Restore(ctx, kipt.IPv4, script([]*edit{e}, d.Chunk())); err != nil {
			return err
		}
	}
	return b.openLoopback(node)
}
