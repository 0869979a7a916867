package iptables

import (
	"fmt"

	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// routeLocalnet lets packets from 127.0.0.1 leave by another device than lo, which node ports there need. It also lets
// the network in to services of the host that listen there; the chain localnet keeps it out.
const routeLocalnet = "net/ipv4/conf/all/route_localnet"

// loopback sets routeLocalnet when node ports answer at 127.0.0.1. The chain localnet is the mark by which a later process
// knows that this one did, and takes it back when they do no more.
func (b *Backend) loopback(have *Ruleset, wanted bool) error {
	_, was := have.table(kipt.IPv4, kipt.Filter).Chains[localnet]
	if b.sysctl == nil || !wanted && !was {
		return nil
	}
	value := "0"
	if wanted {
		value = "1"
	}
	if err := b.sysctl.Set(routeLocalnet, value); err != nil {
		return fmt.Errorf("iptables: node ports at 127.0.0.1: %w", err)
	}
	return nil
}
