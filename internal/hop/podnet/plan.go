package podnet

import (
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
)

// What VXLAN adds to a packet: inner Ethernet, VXLAN, UDP and outer IP header (RFC 7348).
const (
	overhead4 = 14 + 8 + 8 + 20
	overhead6 = 14 + 8 + 8 + 40
)

// Plan decides what the node needs: one route for each range of another node, by the other node's address when it is on
// a network of this one, else through the tunnel. A State without Config means that the node is not known to the
// cluster or has no range; then nothing is to be changed.
func Plan(s *model.Snapshot, o Options, host Host) (State, []flow.Finding) {
	o = o.withDefaults()
	self := s.Nodes.At(o.Node)
	if self == nil || len(self.PodCIDRs) == 0 {
		return State{}, []flow.Finding{noPodCIDR(o.Node, self != nil)}
	}
	p := planner{o: o, host: host, self: self, outer4: outer4(s), used: map[netip.Prefix]string{}, tunneled: map[string]bool{}}
	p.own()
	for _, n := range model.Sorted(s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) }) {
		if n.Name != self.Name {
			p.peer(n)
		}
	}
	p.mtu()
	within := inside(s, o, self, &host)
	for _, c := range p.out.Config.PodCIDRs {
		is4 := c.Addr().Is4()
		p.out.Tables[family(is4)] = masquerade(is4, p.out.Config.PodCIDRs, within)
	}
	p.out.sort()
	return p.out, p.findings
}

// family is the place of a family in State.Tables.
func family(is4 bool) int {
	if is4 {
		return 0
	}
	return 1
}

// outer4 is the family of the tunnel's outer addresses: IPv4, unless not every node has such an address and every node
// has an IPv6 one. Every node comes to the same answer.
func outer4(s *model.Snapshot) bool {
	all4, all6 := true, true
	for n := range s.Nodes.Values() {
		if len(n.PodCIDRs) > 0 {
			all4, all6 = all4 && n.Addr(true).IsValid(), all6 && n.Addr(false).IsValid()
		}
	}
	return all4 || !all6
}

type planner struct {
	o         Options
	host      Host
	self      *model.Node
	outer4    bool
	used      map[netip.Prefix]string // range -> node
	tunneled  map[string]bool         // nodes with a forwarding entry
	narrowest int                     // least MTU of the devices towards other nodes; 0 = none known
	out       State
	findings  []flow.Finding
}

// own is this node's ranges: an address of theirs that no Pod has is answered for at once instead of sent away.
func (p *planner) own() {
	p.out.Config.Node = p.self.Name
	for _, c := range p.self.PodCIDRs {
		c = c.Masked()
		p.used[c] = p.self.Name
		p.out.Config.PodCIDRs = append(p.out.Config.PodCIDRs, c)
		p.out.Config.Gateways = append(p.out.Config.Gateways, ipam.Gateway(c))
		p.route(route.Route{Dst: c, Type: route.Unreachable, Metric: unreachableMetric}, p.self.Name)
	}
}

func (p *planner) peer(n *model.Node) {
	for _, c := range n.PodCIDRs {
		c = c.Masked()
		if other, ok := p.used[c]; ok {
			p.findings = append(p.findings, sameRange(n.Name, other, c))
			continue
		}
		p.used[c] = n.Name
		if via := n.Addr(c.Addr().Is4()); via.IsValid() && p.o.Overlay != OverlayAlways {
			if device, ok := p.host.onLink(via); ok {
				p.narrow(via)
				p.route(route.Route{Dst: c, Via: via, Device: device}, n.Name)
				continue
			}
		}
		p.tunnel(n, c)
	}
}

// tunnel leads a range of another node through the tunnel.
func (p *planner) tunnel(n *model.Node, c netip.Prefix) {
	local, remote := p.self.Addr(p.outer4), n.Addr(p.outer4)
	if p.o.Overlay == OverlayNever || !local.IsValid() || !remote.IsValid() {
		p.findings = append(p.findings, noWay(p.self.Name, n, c, p.o.Overlay == OverlayNever))
		return
	}
	if p.out.Tunnel == nil {
		p.out.Tunnel = p.device(local)
	}
	p.narrow(remote)
	mac := vtep(n.Name)
	gateway := farEnd(c, mac)
	if !p.route(route.Route{Dst: c, Via: gateway, Device: TunnelDevice, OnLink: gateway.Is4()}, n.Name) {
		return
	}
	p.out.Neighbours = append(p.out.Neighbours, route.Neighbour{Device: TunnelDevice, Addr: gateway, MAC: mac})
	if !p.tunneled[n.Name] {
		p.tunneled[n.Name] = true
		p.out.Neighbours = append(p.out.Neighbours, route.Neighbour{Device: TunnelDevice, Addr: remote, MAC: mac, FDB: true})
	}
}

// vtep is the Ethernet address of a node's end of the tunnel.
func vtep(node string) link.MAC { return MAC("vtep", node) }

// farEnd is the address of a node's end of the tunnel as next hop for a range of its: for IPv4 its gateway, for IPv6 a
// link-local one, because the kernel refuses an IPv6 next hop to which another device's route leads.
func farEnd(c netip.Prefix, mac link.MAC) netip.Addr {
	if c.Addr().Is4() {
		return ipam.Gateway(c)
	}
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: mac[0] ^ 2, 9: mac[1], 10: mac[2], 11: 0xff, 12: 0xfe, 13: mac[3], 14: mac[4], 15: mac[5]})
}

// device is the tunnel. It has the gateways' addresses, so that what the node itself sends has an address that its peers
// send back through the tunnel.
func (p *planner) device(local netip.Addr) *link.Link {
	l := &link.Link{
		Name: TunnelDevice, Kind: link.KindVXLAN, MAC: vtep(p.self.Name), Up: true, Alias: tunnelAlias,
		VXLAN: &link.VXLAN{VNI: p.o.VNI, Port: p.o.Port, Local: local},
	}
	for _, g := range p.out.Config.Gateways {
		l.Addrs = append(l.Addrs, single(g))
	}
	link.SortAddrs(l.Addrs)
	return l
}

// narrow takes the MTU of the device towards a node into account.
func (p *planner) narrow(to netip.Addr) {
	if mtu := p.host.mtuTowards(to); mtu > 0 && (p.narrowest == 0 || mtu < p.narrowest) {
		p.narrowest = mtu
	}
}

// mtu is the least of all ways that Pods' packets take, with room for the tunnel when there is one.
func (p *planner) mtu() {
	mtu := p.o.MTU
	if mtu == 0 {
		mtu = p.host.mtu(p.self.Addrs)
		if p.narrowest > 0 {
			mtu = min(mtu, p.narrowest)
		}
	}
	if p.out.Tunnel != nil {
		if mtu -= overhead6; p.outer4 {
			mtu += overhead6 - overhead4
		}
		p.out.Tunnel.MTU = mtu
	}
	p.out.Config.MTU = mtu
}

// route wants a route unless another program has one to the same destination.
func (p *planner) route(r route.Route, node string) bool {
	r.Proto = RouteProtocol
	for _, o := range p.host.Routes {
		if o.Dst == r.Dst {
			p.findings = append(p.findings, routeTaken(p.self.Name, node, r, o))
			return false
		}
	}
	p.out.Routes = append(p.out.Routes, r)
	return true
}
