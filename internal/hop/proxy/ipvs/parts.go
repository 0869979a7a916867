package ipvs

import (
	"net/netip"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// parts is what some Services put into the tables, onto the device and into IPVS. Frontends belong to one Service each;
// addresses are shared, so they are counted.
type parts struct {
	ipvs    *proxy.IPVSSettings
	node    *proxy.Node
	sets    [2]map[string]map[string]string // by family and set
	addrs   map[netip.Addr]int              // on the device
	hairpin map[netip.Addr]int
	servers map[kipvs.Key]*virtual
	ports   [2]int
}

// virtual is a virtual server that is wanted.
type virtual struct {
	kipvs.Server
	// serving are the endpoints that may keep the UDP connections that they have.
	serving []netip.AddrPort
}

func newParts(p *proxy.Plan) *parts {
	return &parts{ipvs: &p.Settings.IPVS, node: &p.Node, sets: [2]map[string]map[string]string{{}, {}}, addrs: map[netip.Addr]int{}, hairpin: map[netip.Addr]int{},
		servers: map[kipvs.Key]*virtual{}}
}

// collect gathers the parts of all Services.
func collect(p *proxy.Plan) *parts {
	out := newParts(p)
	for s := range p.Services.Values() {
		out.add(s)
	}
	return out
}

// add puts in a Service; nil adds nothing.
func (x *parts) add(s *proxy.Service) {
	if s == nil {
		return
	}
	hidden := hiddenPorts(s)
	for i, p := range s.Ports {
		x.port(p, hidden[i])
	}
}

// hiddenPorts finds, for each port of a Service that needs one, a free port of its ClusterIP for a virtual server that no
// client reaches by itself. Clients on this node of an external address with policy Local go to all endpoints; when the
// ClusterIP's own policy is Local too, no other virtual server has those.
func hiddenPorts(s *proxy.Service) []uint16 {
	out := make([]uint16, len(s.Ports))
	var taken map[kipvs.Key]bool
	for i, p := range s.Ports {
		if !p.InternalLocal || !p.ExternalLocal || len(p.Cluster) == 0 {
			continue
		}
		if taken == nil {
			taken = map[kipvs.Key]bool{}
			for _, q := range s.Ports {
				taken[kipvs.Key{Addr: q.ClusterIP, Proto: q.Proto.Number()}] = true
			}
		}
		k := kipvs.Key{Addr: netip.AddrPortFrom(p.ClusterIP.Addr(), 65535), Proto: p.Proto.Number()}
		for taken[k] {
			k.Addr = netip.AddrPortFrom(k.Addr.Addr(), k.Addr.Port()-1)
		}
		taken[k], out[i] = true, k.Addr.Port()
	}
	return out
}

func (x *parts) put(fam int, set, key, value string) {
	m := x.sets[fam][set]
	if m == nil {
		m = map[string]string{}
		x.sets[fam][set] = m
	}
	m[key] = value
}

func (x *parts) port(p *proxy.Port, hidden uint16) {
	fam, proto := familyOf(p.Is4()), p.Proto.Number()
	x.ports[fam]++
	for _, a := range p.Hairpin {
		x.hairpin[a]++
	}
	list := p.Cluster
	if p.InternalLocal {
		list = p.Local
	}
	front := frontendKey(p.ClusterIP, proto)
	x.put(fam, setClusterIP, front, "")
	x.lead(p, p.ClusterIP, proto, list, false)
	inside := p.ClusterIP
	if hidden != 0 {
		inside = netip.AddrPortFrom(p.ClusterIP.Addr(), hidden)
		x.server(p, inside, proto, p.Cluster)
	}
	for i := range p.External {
		x.external(p, &p.External[i], inside)
	}
}

func (x *parts) external(p *proxy.Port, f *proxy.Frontend, inside netip.AddrPort) {
	fam, proto := familyOf(p.Is4()), p.Proto.Number()
	front := frontendKey(f.Addr, proto)
	x.put(fam, setOf(f.Kind, proto, p.ExternalLocal), front, "")
	if f.Guarded {
		x.put(fam, setGuarded, front, "")
		for _, s := range f.Sources {
			x.put(fam, setSources, front+knft.Key{}.Addr(s.Addr()).String()+front+knft.Key{}.Addr(last(s)).String(), "")
		}
	}
	list, toAll := p.Cluster, false
	if p.ExternalLocal {
		list, toAll = p.Local, len(p.Cluster) > 0
	}
	if toAll && p.Any {
		x.put(fam, mapInside, front, knft.Key{}.Addr(inside.Addr()).Port(inside.Port()).String())
	}
	x.lead(p, f.Addr, proto, list, toAll)
}

// lead makes a frontend lead to endpoints, or nowhere. forSome says that some clients are led elsewhere before.
func (x *parts) lead(p *proxy.Port, at netip.AddrPort, proto uint8, list []netip.AddrPort, forSome bool) {
	fam, front := familyOf(p.Is4()), frontendKey(at, proto)
	x.address(at.Addr())
	switch {
	case !p.Any:
		x.put(fam, setNoEndpoint, front, "")
		return
	case len(list) == 0:
		x.put(fam, setNoneHere, front, "")
		if !forSome {
			return
		}
	default:
		x.server(p, at, proto, list)
	}
	x.put(fam, setFrontends, front, "")
}

// address counts an address for the device, unless it is the node's own: that is on a device already.
func (x *parts) address(a netip.Addr) {
	if !x.node.Has(a) {
		x.addrs[a]++
	}
}

func (x *parts) server(p *proxy.Port, at netip.AddrPort, proto uint8, list []netip.AddrPort) {
	v := &virtual{serving: p.Serving}
	v.Key = kipvs.Key{Addr: at, Proto: proto}
	v.Scheduler = scheduler(x.ipvs)
	v.Fallback = v.Scheduler == "sh" || v.Scheduler == "mh"
	if p.Affinity > 0 {
		v.Persistence = max(p.Affinity.Truncate(time.Second), time.Second)
	}
	v.Dests = make(map[netip.AddrPort]kipvs.Dest, len(list))
	for _, a := range list {
		v.Dests[a] = kipvs.Dest{Weight: 1}
	}
	x.servers[v.Key] = v
	if x.node.Has(at.Addr()) {
		x.put(familyOf(at.Addr().Is4()), setNode, frontendKey(at, proto), "")
	}
}

// setOf is the set of an external frontend.
func setOf(k proxy.FrontendKind, proto uint8, local bool) string {
	switch {
	case k == proxy.NodePort:
		return setNodePort(proto, local)
	case k == proxy.LoadBalancer && local:
		return setLBLocal
	case k == proxy.LoadBalancer:
		return setLB
	case local:
		return setExternalLocal
	}
	return setExternal
}

// frontendKey is a frontend as the sets have it.
func frontendKey(a netip.AddrPort, proto uint8) string {
	return knft.Key{}.Addr(a.Addr()).Proto(proto).Port(a.Port()).String()
}

// last is the highest address of a prefix.
func last(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
