package cni

import (
	"context"
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/hop/podnet/hostport"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/nft"
)

// portMapping is a hostPort as the container runtime writes it.
type portMapping struct {
	HostPort      uint16 `json:"hostPort"`
	ContainerPort uint16 `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

func (c *conf) ports() []ipam.Port {
	var out []ipam.Port
	for _, m := range c.RuntimeConfig.PortMappings {
		if m.HostPort == 0 {
			continue
		}
		p := ipam.Port{Proto: strings.ToLower(m.Protocol), HostPort: m.HostPort, Port: m.ContainerPort}
		if p.Proto == "" {
			p.Proto = "tcp"
		}
		p.HostIP, _ = netip.ParseAddr(m.HostIP) // none: all addresses of the node
		out = append(out, p)
	}
	return out
}

// syncPorts makes the node's hostPorts what the reservations say.
func (p *plugin) syncPorts(s *ipam.Store) error {
	p.step("ports")
	rules, err := nft.Open(nil)
	if err != nil {
		return err
	}
	defer rules.Close()
	_, err = hostport.Sync(context.Background(), s, hostport.Doors{
		Rules: rules, Local: p.localAddrs,
		Flows: func() (conntrack.Table, error) { return conntrack.Open(nil) },
	})
	return err
}

// localAddrs are the node's own addresses.
func (p *plugin) localAddrs() ([]netip.Addr, error) {
	all, err := p.links.List()
	if err != nil {
		return nil, err
	}
	var out []netip.Addr
	for _, l := range all {
		for _, a := range l.Addrs {
			out = append(out, a.Addr())
		}
	}
	return out, nil
}
