package podnet

import (
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// New opens the pod network of the node whose network namespace ns is; nil is this process's. It touches nothing before
// the first Apply.
func New(ns *netns.NS, o Options) (*Hop, error) {
	var opened []func()
	closeAll := func() {
		for _, c := range opened {
			c()
		}
	}
	links, err := link.Open(ns)
	if err != nil {
		return nil, err
	}
	opened = append(opened, links.Close)
	routes, err := route.Open(ns)
	if err != nil {
		closeAll()
		return nil, err
	}
	opened = append(opened, routes.Close)
	monitor, err := route.OpenMonitor(ns)
	if err != nil {
		closeAll()
		return nil, err
	}
	opened = append(opened, monitor.Close)
	rules, err := nft.Open(ns)
	if err != nil {
		closeAll()
		return nil, err
	}
	opened = append(opened, func() { rules.Close() })
	return newHop(o, doors{
		links: links, routes: routes, neighbours: routes, sysctl: sysctl.Open(ns), rules: rules,
		flows:   func() (conntrack.Table, error) { return conntrack.Open(ns) },
		changed: monitor.Changed, close: closeAll,
	}), nil
}
