package proxy

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/model"
)

// candidate is one endpoint of a port, once for each address and port.
type candidate struct {
	addr        netip.AddrPort
	ready       bool
	serving     bool
	terminating bool
	local       bool // on this node
	placed      bool // its node is known
	zones       []string
	nodes       []string
}

// draining reports whether the endpoint is to be used when no ready one is left (KEP-1669).
func (c *candidate) draining() bool { return !c.ready && c.serving && c.terminating }

// better says which of two slices' words about the same endpoint counts: while an endpoint moves between slices both may
// have it, and the one that lets it serve is right or soon will be.
func (c *candidate) better(o *candidate) bool {
	rank := func(x *candidate) int {
		switch {
		case x.ready:
			return 2
		case x.serving:
			return 1
		}
		return 0
	}
	return rank(c) > rank(o)
}

// candidates are the endpoints of a Service port in one family, ordered by address: a slice's port belongs to the Service
// port of the same name and protocol, and a slice without a port number offers nothing.
// They are appended to room.
func candidates(room []candidate, b *model.Backends, sp *model.ServicePort, is4 bool, n *Node) []candidate {
	if b == nil {
		return nil
	}
	out := room
	for _, slice := range b.Slices {
		if slice.AddressType != family(is4) {
			continue
		}
		for _, port := range slice.Ports {
			if port.Name != sp.Name || port.Protocol != sp.Protocol || port.Port == 0 {
				continue
			}
			for i := range slice.Endpoints {
				out = append(out, candidateOf(&slice.Endpoints[i], port.Port, n))
			}
		}
	}
	return dedupe(out)
}

func family(is4 bool) string {
	if is4 {
		return "IPv4"
	}
	return "IPv6"
}

func candidateOf(e *model.Endpoint, port uint16, n *Node) candidate {
	return candidate{
		addr: netip.AddrPortFrom(e.Addr, port), ready: e.Ready, serving: e.Serving || e.Ready, terminating: e.Terminating,
		local: e.Node != "" && e.Node == n.Name, placed: e.Node != "", zones: e.ForZones, nodes: e.ForNodes,
	}
}

// dedupe orders by address and port and keeps the best of each.
func dedupe(cs []candidate) []candidate {
	byAddr := func(a, b candidate) int { return a.addr.Compare(b.addr) }
	if !slices.IsSortedFunc(cs, byAddr) {
		slices.SortStableFunc(cs, byAddr)
	}
	out := cs[:0]
	for _, c := range cs {
		if n := len(out); n > 0 && out[n-1].addr == c.addr {
			o := out[n-1]
			if c.better(&o) {
				out[n-1] = c
			}
			// Where it is may be said in one of the slices only.
			out[n-1].local, out[n-1].placed = o.local || c.local, o.placed || c.placed
			continue
		}
		out = append(out, c)
	}
	return out
}

// choose fills in the lists of endpoints. Whether ready or draining endpoints are used is decided for Cluster and for
// Local each on its own (KEP-1669).
func (p *Port) choose(cs []candidate, n *Node) {
	for i := range cs {
		p.Any = p.Any || cs[i].ready || cs[i].draining()
	}
	if usesCluster(p.InternalLocal, len(p.External)) {
		p.Cluster = pick(cs, near(cs, n))
	}
	if p.InternalLocal || p.ExternalLocal {
		p.Local = pick(cs, func(c *candidate) bool { return c.local })
	}
	p.Serving = serving(cs, p.Cluster)
	for i := range cs {
		c := &cs[i]
		if (c.local || !c.placed) && (contains(p.Cluster, c.addr) || contains(p.Local, c.addr)) {
			p.Hairpin = append(p.Hairpin, c.addr.Addr())
		}
	}
	p.Hairpin = slices.Compact(p.Hairpin)
}

// serving returns the endpoints that serve. Mostly they are those of another list, which is then shared.
func serving(cs []candidate, other []netip.AddrPort) []netip.AddrPort {
	n, same := 0, true
	for i := range cs {
		if cs[i].serving {
			same = same && n < len(other) && other[n] == cs[i].addr
			n++
		}
	}
	if same && n == len(other) {
		return other
	}
	out := make([]netip.AddrPort, 0, n)
	for i := range cs {
		if cs[i].serving {
			out = append(out, cs[i].addr)
		}
	}
	return out
}

// pick returns the ready endpoints that in allows; without any, the draining ones that may stand in.
func pick(cs []candidate, in filter) []netip.AddrPort {
	ready, draining := 0, 0
	for i := range cs {
		switch c := &cs[i]; {
		case c.ready && in(c):
			ready++
		case c.draining() && in(c):
			draining++
		}
	}
	if ready+draining == 0 {
		return nil
	}
	out := make([]netip.AddrPort, 0, max(ready, draining))
	for i := range cs {
		if c := &cs[i]; (c.ready || ready == 0 && c.draining()) && in(c) {
			out = append(out, c.addr)
		}
	}
	return out
}

func contains(sorted []netip.AddrPort, a netip.AddrPort) bool {
	_, ok := slices.BinarySearchFunc(sorted, a, netip.AddrPort.Compare)
	return ok
}

type filter func(*candidate) bool

// near is the filter that the hints ask for (KEP-3015, KEP-2433). Hints for nodes count only if every ready endpoint has
// them and one is for this node; else the same test for zones; else every endpoint is near. Draining endpoints stand in
// for all, wherever they are.
func near(cs []candidate, n *Node) filter {
	byNode, byZone := hints{all: true}, hints{all: true}
	for i := range cs {
		if c := &cs[i]; c.ready {
			byNode.see(c.nodes, n.Name)
			byZone.see(c.zones, n.Zone)
		}
	}
	switch {
	case byNode.hold():
		return func(c *candidate) bool { return !c.ready || slices.Contains(c.nodes, n.Name) }
	case byZone.hold():
		return func(c *candidate) bool { return !c.ready || slices.Contains(c.zones, n.Zone) }
	}
	return func(*candidate) bool { return true }
}

// hints collects whether a kind of hint can be followed.
type hints struct{ all, mine bool }

func (h *hints) see(of []string, me string) {
	h.all = h.all && len(of) > 0
	h.mine = h.mine || me != "" && slices.Contains(of, me)
}

func (h *hints) hold() bool { return h.all && h.mine }

// readyHere counts the addresses of a Service's ready endpoints on the node, whatever their ports. One family counts: in
// the other are the same Pods again.
func readyHere(b *model.Backends, n *Node, is4 bool) int {
	seen := map[netip.Addr]bool{}
	b.Each(func(s *model.EndpointSlice, e *model.Endpoint) {
		if s.AddressType == family(is4) && e.Ready && e.Node != "" && e.Node == n.Name {
			seen[e.Addr] = true
		}
	})
	return len(seen)
}
