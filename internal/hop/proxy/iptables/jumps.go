package iptables

import (
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// jump is a rule in one of the kernel's chains that leads to one of ours.
type jump struct {
	table, from, to string
	newOnly         bool
	comment         string
}

// jumps are put at the beginning of the kernel's chains, in this order: the last one is passed first. They are
// kube-proxy's, and one more: the node's own packets to an external address that leads nowhere are refused too.
var jumps = []jump{
	{kipt.Filter, "INPUT", external, true, "kubernetes externally-visible service portals"},
	{kipt.Filter, "FORWARD", external, true, "kubernetes externally-visible service portals"},
	{kipt.Filter, "OUTPUT", external, true, "kubernetes externally-visible service portals"},
	{kipt.Filter, "INPUT", nodePorts, false, "kubernetes health check service ports"},
	{kipt.Filter, "FORWARD", services, true, "kubernetes service portals"},
	{kipt.Filter, "OUTPUT", services, true, "kubernetes service portals"},
	{kipt.Filter, "FORWARD", forward, false, "kubernetes forwarding rules"},
	{kipt.Filter, "INPUT", firewall, true, "kubernetes load balancer firewall"},
	{kipt.Filter, "OUTPUT", firewall, true, "kubernetes load balancer firewall"},
	{kipt.Filter, "FORWARD", firewall, true, "kubernetes load balancer firewall"},
	{kipt.NAT, "OUTPUT", services, false, "kubernetes service portals"},
	{kipt.NAT, "PREROUTING", services, false, "kubernetes service portals"},
	{kipt.NAT, "POSTROUTING", postrouting, false, "kubernetes postrouting rules"},
}

// localnetJumps are there while node ports answer at the host's loopback addresses.
var localnetJumps = []jump{
	{kipt.Filter, "INPUT", localnet, false, "kubernetes localnet node ports"},
}

func (j jump) rule() string {
	out := "-A " + j.from
	if j.newOnly {
		out += " -m conntrack --ctstate NEW"
	}
	return out + ` -m comment --comment "` + j.comment + `" -j ` + j.to + "\n"
}

// builtin are the rules of the kernel's chains of one table, by chain.
func builtin(table string, js ...[]jump) map[string]string {
	out := map[string]string{}
	for _, list := range js {
		for _, j := range list {
			if j.table == table {
				out[j.from] = j.rule() + out[j.from]
			}
		}
	}
	return out
}
