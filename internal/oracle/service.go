package oracle

import "fmt"

// service is a Service and its slices, before they are written as objects.
type service struct {
	n        int
	name     string
	families []string
	kind     string // a Service's type, or "" for a headless one
	ports    []port

	internalLocal, externalLocal, affinity, proxyName, noNodePorts bool

	addrs       []lbAddr
	ranges      []string
	externalIPs []string
	endpoints   []endpoint
	hints       string            // "", zones, nodes, some
	targets     [2]map[string]int // of each slice: port name -> target port; a port may be missing
}

type port struct {
	name     string
	proto    string
	number   int
	nodePort int
}

type lbAddr struct {
	addr  string
	proxy bool
}

// endpoint is one backend in one of the Service's two slices.
type endpoint struct {
	backend int
	slice   int
	state   state
	noNode  bool
}

// state is the condition of an endpoint.
type state int

const (
	ready  state = iota
	unsaid       // no condition: ready
	notReady
	terminating     // still serving
	terminatingDead // not serving any more
)

func (g *generator) state() state {
	switch p := g.r.IntN(100); {
	case p < 58:
		return ready
	case p < 65:
		return unsaid
	case p < 78:
		return notReady
	case p < 92:
		return terminating
	}
	return terminatingDead
}

func (g *generator) kind() string {
	switch p := g.r.IntN(100); {
	case p < 35:
		return "ClusterIP"
	case p < 65:
		return "NodePort"
	case p < 98:
		return "LoadBalancer"
	}
	return ""
}

// service makes a new one.
func (g *generator) service() *service {
	s := &service{n: g.made, name: fmt.Sprintf("svc-%d", g.made), kind: g.kind()}
	g.made++
	switch p := g.r.IntN(100); {
	case p < 60:
		s.families = []string{"IPv4"}
	case p < 75:
		s.families = []string{"IPv6"}
	case p < 90:
		s.families = []string{"IPv4", "IPv6"}
	default:
		s.families = []string{"IPv6", "IPv4"}
	}
	for range 1 + g.r.IntN(5)/3 + g.r.IntN(10)/9 {
		s.ports = append(s.ports, g.port(s))
	}
	s.internalLocal, s.externalLocal, s.affinity = g.chance(25), g.chance(35), g.chance(18)
	s.proxyName, s.noNodePorts = g.chance(3), g.chance(12)
	s.hints = pick(g, "", "", "", "", "zones", "nodes", "some")
	g.addresses(s)
	s.ranges, s.externalIPs = g.ranges(s), g.externalIPs(s)
	if !g.chance(12) {
		for range 1 + g.r.IntN(4) {
			s.endpoints = append(s.endpoints, g.endpoint(s))
		}
	}
	g.complete(s)
	return s
}

// port makes one more port with a name of its own; the same number may be there for the other protocol.
func (g *generator) port(s *service) port {
	for {
		p := port{name: fmt.Sprintf("p%d", len(s.ports)), proto: pick(g, "TCP", "TCP", "UDP"), number: pick(g, 53, 80, 443, 8080)}
		taken := false
		for _, o := range s.ports {
			taken = taken || o.number == p.number && o.proto == p.proto
		}
		if !taken {
			return p
		}
	}
}

// addresses gives a load balancer its addresses.
func (g *generator) addresses(s *service) {
	s.addrs = nil
	for i := range 1 + g.r.IntN(4)/3 {
		for _, f := range s.families {
			s.addrs = append(s.addrs, lbAddr{outsideAddr(f, 10*s.n+i), g.chance(15)})
		}
	}
}

// outsideAddr is an address that belongs to nobody.
func outsideAddr(family string, n int) string {
	if family == "IPv6" {
		return fmt.Sprintf("2001:db8:51::%x", n+1)
	}
	return fmt.Sprintf("198.51.100.%d", n+1)
}

// ranges are loadBalancerSourceRanges: mostly none, sometimes of one family alone.
func (g *generator) ranges(s *service) (out []string) {
	if !g.chance(30) {
		return nil
	}
	v4 := [][]string{{"203.0.113.0/28"}, {"10.244.0.0/16"}, {"10.90.0.0/24"}, {"203.0.113.0/24", "10.244.1.0/24"}, {"192.0.2.0/24"}, {"0.0.0.0/0"}}
	v6 := [][]string{{"fd00:203::/124"}, {"fd00:244::/32"}, {"fd00:90::/64"}, {"fd00:203::/64", "fd00:244:1::/64"}, {"2001:db8::/64"}, {"::/0"}}
	for _, f := range s.families {
		if len(s.families) > 1 && g.chance(25) {
			continue
		}
		if f == "IPv4" {
			out = append(out, pick(g, v4...)...)
		} else {
			out = append(out, pick(g, v6...)...)
		}
	}
	return out
}

func (g *generator) externalIPs(s *service) (out []string) {
	if !g.chance(20) {
		return nil
	}
	n := 100 + s.n
	if s.n > 0 && g.chance(6) {
		n-- // that of the Service before
	}
	for _, f := range s.families {
		out = append(out, outsideAddr(f, n))
	}
	return out
}

func (g *generator) endpoint(s *service) endpoint {
	e := endpoint{backend: g.r.IntN(len(backends) - 2), slice: g.r.IntN(4) / 3, state: g.state(), noNode: g.chance(4)}
	if g.chance(10) {
		e.backend = len(backends) - 2 + g.r.IntN(2) // on a node's own network
	}
	return e
}

// complete gives ports what they need of each other.
func (g *generator) complete(s *service) {
	for i := range s.ports {
		p := &s.ports[i]
		if p.nodePort == 0 {
			p.nodePort = 30000 + 10*s.n + i
			for _, o := range s.ports[:i] { // as the API server does for one number with two protocols
				if o.number == p.number {
					p.nodePort = o.nodePort
				}
			}
		}
	}
	for i := range s.targets {
		if s.targets[i] == nil {
			s.targets[i] = map[string]int{}
		}
		for _, p := range s.ports {
			if _, ok := s.targets[i][p.name]; !ok {
				s.targets[i][p.name] = pick(g, targets...)
				if i == 1 && g.chance(8) {
					s.targets[i][p.name] = 0 // this slice lacks the port
				}
			}
		}
	}
}
