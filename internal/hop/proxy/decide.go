package proxy

import (
	"cmp"
	"net/netip"
	"reflect"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Config is what a plan follows from, beside the snapshot.
type Config struct {
	Node     string
	Settings Settings
	// ServiceCIDRs are ranges of ClusterIPs beside those that the cluster has objects for.
	ServiceCIDRs []netip.Prefix
	// Host returns the addresses of the host's devices, loopback apart, sorted; nil when they are not known. The node's
	// addresses are then those of its Node object.
	Host func() []netip.Addr
	// Random says that the backend cannot choose by the client's address.
	Random bool
}

// Decide plans everything for a node with default settings.
func Decide(s *model.Snapshot, node string) *Plan { return Config{Node: node}.Decide(s) }

// Decide plans everything: the one place where endpoints are chosen.
func (c Config) Decide(s *model.Snapshot) *Plan {
	p, _ := c.Planner().Update(s, model.Everything())
	return p
}

func (c Config) host() []netip.Addr {
	if c.Host == nil {
		return nil
	}
	return c.Host()
}

// ranges are all that ClusterIPs are given from, sorted.
func (c Config) ranges(s *model.Snapshot) []netip.Prefix {
	out := slices.Clone(c.ServiceCIDRs)
	for r := range s.ServiceCIDRs.Values() {
		out = append(out, r.CIDRs...)
	}
	return widest(out)
}

// Planner keeps the plan of the newest snapshot and decides anew only what changed. It belongs to one goroutine.
type Planner struct {
	config Config
	host   []netip.Addr
	plan   *Plan
	raw    map[model.Name]*Service // as decided, before other Services' claims were looked at
	claims map[frontendKey]claims
	room   []candidate // reused
}

// frontendKey is an address, port and protocol that only one Service can have.
type frontendKey struct {
	addr  netip.Addr
	port  uint16
	proto byte
}

func keyOf(a netip.AddrPort, p flow.Proto) frontendKey { return frontendKey{a.Addr(), a.Port(), p[0]} }

// claim is a Service's wish for a frontend; the least wins.
type claim struct {
	kind FrontendKind
	name model.Name
}

// claims are who wants a frontend: the one that has it, and, rarely, others in order.
type claims struct {
	claim
	rivals []claim
}

func (c claims) all() []claim { return append([]claim{c.claim}, c.rivals...) }

func claimsOf(cs []claim) claims { return claims{cs[0], cs[1:]} }

func (c claim) compare(o claim) int {
	return cmp.Or(cmp.Compare(c.kind, o.kind), c.name.Compare(o.name))
}

// NewPlanner returns a planner for a node with default settings.
func NewPlanner(node string) *Planner { return Config{Node: node}.Planner() }

// Planner returns a planner that has seen nothing yet.
func (c Config) Planner() *Planner {
	return &Planner{config: c, plan: &Plan{Node: Node{Name: c.Node}, Settings: c.Settings}, raw: map[model.Name]*Service{}, claims: map[frontendKey]claims{}}
}

// moved reports whether the host has other addresses than those that the last plan was made with.
func (p *Planner) moved() bool { return p.config.Host != nil && !slices.Equal(p.host, p.config.host()) }

// Update brings the plan up to the snapshot and returns it, with the number of Services that were decided anew. c may
// name too much, never too little.
func (p *Planner) Update(s *model.Snapshot, c model.Change) (*Plan, int) {
	p.host = p.config.host()
	node := decideNode(s, p.config.Node, &p.config.Settings, p.host)
	moved := !node.equal(&p.plan.Node)
	next := &Plan{Node: node, Services: p.plan.Services, Settings: p.config.Settings, ServiceCIDRs: p.config.ranges(s)}
	names := c.Services
	if c.All || moved {
		names = p.allNames(s)
	}
	again := make(map[model.Name]bool, len(names)) // whose claims or rivals' claims changed
	decided := 0
	for _, n := range names {
		if p.decide(s, n, &next.Node, moved, again) {
			decided++
		}
	}
	if next.Services.Len() == 0 {
		next.Services = p.settleAll()
	} else {
		for n := range again {
			next.Services = p.settle(next.Services, n)
		}
	}
	p.plan = next
	return next, decided
}

func (p *Planner) allNames(s *model.Snapshot) []model.Name {
	out := make([]model.Name, 0, s.Services.Len())
	for n := range s.Services.All() {
		out = append(out, n)
	}
	for n := range p.raw {
		if _, ok := s.Services.Get(n); !ok {
			out = append(out, n)
		}
	}
	return out
}

// decide plans one Service if its objects differ from those it was planned from, and marks all that this may concern.
func (p *Planner) decide(s *model.Snapshot, n model.Name, node *Node, moved bool, again map[model.Name]bool) bool {
	svc, b, old := s.Services.At(n), s.Backends(n), p.raw[n]
	if svc != nil && !p.config.Settings.proxied(svc) {
		svc = nil
	}
	if old != nil && !moved && old.svc == svc && old.backends == b || old == nil && svc == nil {
		return false
	}
	again[n] = true
	if old != nil {
		p.withdraw(old, again)
		delete(p.raw, n)
	}
	if svc != nil {
		now := p.service(svc, b, node)
		p.raw[n] = now
		p.claim(now, again)
	}
	return true
}

// balance is the annotation of a Service that says how one of its endpoints is chosen: "maglev", or at random.
const balance = "podway.io/balance"

// service plans one Service, without regard to what other Services claim.
func (p *Planner) service(svc *model.Service, b *model.Backends, n *Node) *Service {
	out := &Service{Name: svc.Name, svc: svc, backends: b, Ports: make([]*Port, 0, len(svc.ClusterIPs)*len(svc.Ports))}
	if svc.ExternalPolicyLocal && svc.HealthCheckNodePort != 0 {
		out.HealthPort, out.Ready = svc.HealthCheckNodePort, readyHere(b, n, svc.ClusterIPs[0].Is4())
	}
	for _, vip := range svc.ClusterIPs {
		for i := range svc.Ports {
			sp := &svc.Ports[i]
			port := &Port{
				Service: svc.Name, Name: sp.Name, Proto: protoOf(sp.Protocol), ClusterIP: netip.AddrPortFrom(vip, sp.Port),
				InternalLocal: svc.InternalPolicyLocal, Affinity: svc.AffinityTimeout,
				External: frontends(svc, sp, vip.Is4(), n, &p.config.Settings), Maglev: svc.Annotations[balance] == "maglev" && !p.config.Random,
			}
			port.ExternalLocal = svc.ExternalPolicyLocal && len(port.External) > 0
			p.room = candidates(p.room[:0], b, sp, vip.Is4(), n)
			port.choose(p.room, n)
			out.Ports = append(out.Ports, port)
		}
	}
	return out
}

func (p *Planner) claim(s *Service, again map[model.Name]bool) {
	s.each(func(k frontendKey, kind FrontendKind) {
		c := claim{kind, s.Name}
		have, taken := p.claims[k]
		if !taken {
			p.claims[k] = claims{claim: c}
			return
		}
		cs := have.all()
		if i, ok := slices.BinarySearchFunc(cs, c, claim.compare); !ok {
			cs = slices.Insert(cs, i, c)
		}
		p.claims[k] = claimsOf(cs)
		for _, rival := range cs {
			again[rival.name] = true
		}
	})
}

func (p *Planner) withdraw(s *Service, again map[model.Name]bool) {
	s.each(func(k frontendKey, kind FrontendKind) {
		have, ok := p.claims[k]
		if !ok {
			return
		}
		cs := slices.DeleteFunc(have.all(), func(c claim) bool { return c == claim{kind, s.Name} })
		for _, rival := range cs {
			again[rival.name] = true
		}
		if len(cs) == 0 {
			delete(p.claims, k)
		} else {
			p.claims[k] = claimsOf(cs)
		}
	})
}

// each calls f for every frontend of the Service, ClusterIPs included.
func (s *Service) each(f func(frontendKey, FrontendKind)) {
	for _, port := range s.Ports {
		f(keyOf(port.ClusterIP, port.Proto), ClusterIP)
		for i := range port.External {
			f(keyOf(port.External[i].Addr, port.Proto), port.External[i].Kind)
		}
	}
}

// settleAll makes the plan of all Services at once.
func (p *Planner) settleAll() model.Map[model.Name, *Service] {
	all := make(map[model.Name]*Service, len(p.raw))
	for n, raw := range p.raw {
		all[n] = p.resolve(raw)
	}
	return model.MapOf(all)
}

// settle puts a Service into the plan without the frontends that others have first. An unchanged one keeps its pointer.
func (p *Planner) settle(m model.Map[model.Name, *Service], n model.Name) model.Map[model.Name, *Service] {
	raw := p.raw[n]
	if raw == nil {
		return m.Delete(n)
	}
	now := p.resolve(raw)
	if old := m.At(n); old != nil && old.same(now) {
		return m
	}
	return m.Set(n, now)
}

// same reports whether two plans of a Service do the same, whatever objects they were made from.
func (s *Service) same(o *Service) bool {
	return s.HealthPort == o.HealthPort && s.Ready == o.Ready && reflect.DeepEqual(s.Ports, o.Ports) && reflect.DeepEqual(s.Shadowed, o.Shadowed)
}

// resolve returns the Service without what it lost; the same pointer when it lost nothing.
func (p *Planner) resolve(raw *Service) *Service {
	lost := false
	raw.each(func(k frontendKey, kind FrontendKind) { lost = lost || p.claims[k].claim != claim{kind, raw.Name} })
	if !lost {
		return raw
	}
	out := &Service{Name: raw.Name, HealthPort: raw.HealthPort, Ready: raw.Ready, svc: raw.svc, backends: raw.backends}
	for _, port := range raw.Ports {
		if owner := p.owner(port.ClusterIP, port.Proto); owner != (claim{ClusterIP, raw.Name}) {
			out.Shadowed = append(out.Shadowed, Shadow{Frontend{Kind: ClusterIP, Addr: port.ClusterIP}, owner.name})
			continue // the ClusterIP is what the whole port is known by
		}
		kept := *port
		kept.External = nil
		for _, f := range port.External {
			if owner := p.owner(f.Addr, port.Proto); owner != (claim{f.Kind, raw.Name}) {
				out.Shadowed = append(out.Shadowed, Shadow{f, owner.name})
				continue
			}
			kept.External = append(kept.External, f)
		}
		out.Ports = append(out.Ports, &kept)
	}
	return out
}

func (p *Planner) owner(a netip.AddrPort, proto flow.Proto) claim {
	return p.claims[keyOf(a, proto)].claim
}
