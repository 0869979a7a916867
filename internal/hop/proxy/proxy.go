package proxy

import (
	"context"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/proxy/health"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
)

// Options are what a Proxy is made of.
type Options struct {
	Node    string // this node's name
	Backend Backend
	// Connections finds and deletes tracked connections; nil leaves stale ones alone.
	Connections conntrack.Table
	// ServiceCIDRs are the ranges that ClusterIPs are from; packets to unused addresses in them are dropped. Optional.
	ServiceCIDRs []netip.Prefix
	Settings     Settings
	// Host returns the addresses of the host's devices; nil = not known (Config.Host).
	Host func() []netip.Addr
	// Tracking is how the kernel is to track connections; nil leaves its settings alone.
	Tracking *Tracking
	CPUs     int // of the host, for Tracking
	// Health is told of changes and their rules, and asked by healthCheckNodePorts; nil = one of New's own.
	Health *health.Node
	// Event tells the people of a Service what is wrong on this node; optional. reason is one word.
	Event func(service model.Name, reason, note string)
	// Others are the backends of other modes: what they left on the host is removed once this mode's rules are proven.
	Others []Backend
	// Dial connects from the node's namespace, to prove rules by it; optional. Switched is told of a mode that was followed, and of
	// the addresses that were connected to; optional.
	Dial     Dial
	Switched func(from, to, reached string)
	Metrics  *Metrics // optional
	// Sysctl is the door to the settings of the node's network namespace; nil leaves them alone.
	Sysctl sysctl.Door
	// Listen opens a TCP listener in the node's network namespace, for healthCheckNodePorts; nil opens none.
	Listen func(address string) (net.Listener, error)
}

// Proxy implements hop.Hop.
type Proxy struct {
	config      Config
	backend     Backend
	connections conntrack.Table
	sysctl      sysctl.Door
	metrics     *Metrics

	tracking *Tracking
	cpus     int
	follows  *health.Node                // whether the rules follow the cluster
	health   *health.Server              // of healthCheckNodePorts
	checked  *Plan                       // the plan whose health checks are answered
	closed   map[model.Name]flow.Finding // healthCheckNodePorts that cannot be opened
	event    func(service model.Name, reason, note string)

	shadowed map[model.Name][]flow.Finding // what stands, by Service
	strict   []flow.Finding                // settings of connection tracking that cannot be written
	room     room                          // for connections

	change   change          // from another mode
	snapshot *model.Snapshot // of served

	planner *Planner
	served  *Plan // what the rules and the tracked connections agree with; nil = unknown
	memo    memo
	current atomic.Pointer[Plan] // the plan that was applied last
}

// New returns the proxy of a node. It touches nothing before the first Apply.
func New(o Options) *Proxy {
	c := Config{Node: o.Node, Settings: o.Settings, ServiceCIDRs: o.ServiceCIDRs, Host: o.Host}
	if _, ok := o.Backend.(Balancer); o.Backend != nil && !ok {
		c.Random = true
	}
	p := &Proxy{config: c, backend: o.Backend, connections: o.Connections, sysctl: o.Sysctl, metrics: o.Metrics,
		planner: c.Planner(), shadowed: map[model.Name][]flow.Finding{}}
	p.tracking, p.cpus, p.event, p.follows = o.Tracking, o.CPUs, o.Event, o.Health
	p.closed = map[model.Name]flow.Finding{}
	p.change = change{others: o.Others, dial: o.Dial, told: o.Switched}
	if p.follows == nil {
		p.follows = health.NewNode(grace)
	}
	p.follows.Answered(p.metrics.Answered)
	if o.Listen != nil {
		p.health = health.New(o.Listen, p.follows.Healthy)
	}
	return p
}

// Name implements hop.Hop.
func (p *Proxy) Name() string { return "proxy" }

const (
	manyServices  = 1000
	fullGCPercent = 400
)

// Apply implements hop.Hop: the rules first, then the UDP and SCTP connections that they left behind.
func (p *Proxy) Apply(ctx context.Context, s *model.Snapshot, c model.Change) (hop.Report, error) {
	start := time.Now()
	if c.All && s.Services.Len() >= manyServices {
		// A full apply fills the heap once and is done: collecting garbage all the while costs a quarter of its time.
		defer debug.SetGCPercent(debug.SetGCPercent(fullGCPercent))
	}
	if l, ok := p.backend.(Limited); ok {
		if err := l.Can(&p.config.Settings); err != nil {
			return hop.Report{}, fmt.Errorf("proxy: %w", err)
		}
	}
	plan, decided := p.planner.Update(s, c)
	p.metrics.begin(s, plan, c, decided)
	p.follows.Queued()
	done, err := p.backend.Apply(ctx, plan)
	if err != nil {
		p.served = nil // unknown until the next full apply
		p.metrics.failed(p.backend, plan)
		return hop.Report{}, fmt.Errorf("proxy: %w", err)
	}
	p.follows.Updated(families(&plan.Node)...)
	p.follows.SetEligible(eligible(s.Nodes.At(plan.Node.Name)))
	p.current.Store(plan)
	p.shadows(plan)
	if p.served == nil {
		p.strict = p.track()
	}
	p.answer(plan)
	p.leave(ctx, s, plan)
	r := hop.Report{Changed: done.Changed, Full: done.Full, Findings: p.Findings()}
	ruled := time.Now()
	deleted, err := p.forget(ctx, p.served, plan)
	r.Took = time.Since(start)
	p.metrics.end(p.backend, s, plan, outcome{done, deleted, r.Took, time.Since(ruled)})
	if err != nil { // the rules are right; the connections are tried again with everything
		return r, fmt.Errorf("proxy: %w", err)
	}
	p.served, p.snapshot = plan, s
	return r, nil
}

// shadows brings the findings of the Services that changed since the last complete apply up to date.
func (p *Proxy) shadows(plan *Plan) {
	var old model.Map[model.Name, *Service]
	if p.served != nil {
		old = p.served.Services
	} else {
		clear(p.shadowed)
	}
	model.Changed(old, plan.Services, func(n model.Name) {
		delete(p.shadowed, n)
		if s := plan.Services.At(n); s != nil {
			if f := s.shadowed(); len(f) > 0 {
				p.shadowed[n] = f
			}
		}
	})
}

// eligible reports whether load balancers may use a node.
func eligible(n *model.Node) bool { return n != nil && !n.Deleting && !n.Leaving }

// Findings are all that is wrong now; beside Apply, Check may change them.
func (p *Proxy) Findings() []flow.Finding {
	var host []flow.Finding
	if b, ok := p.backend.(Finder); ok {
		host = b.Findings()
	}
	return slices.Concat(p.standing(), p.closedPorts(), p.strict, p.room.findings, p.change.findings, host)
}

// standing are the findings of all Services, in the order of their names.
func (p *Proxy) standing() (out []flow.Finding) {
	for _, n := range slices.SortedFunc(maps.Keys(p.shadowed), model.Name.Compare) {
		out = append(out, p.shadowed[n]...)
	}
	return out
}

// Check tells the agent in words what somebody else changed in the rules, or that the host has other addresses now; ""
// when nothing.
func (p *Proxy) Check(ctx context.Context) (string, error) {
	p.openAgain()
	p.look(ctx)
	if len(p.strict) > 0 { // somebody may have set them by hand, or given the permission
		p.strict = p.track()
	}
	if p.served != nil {
		p.leave(ctx, p.snapshot, p.served)
	}
	if p.planner.moved() {
		return "the addresses of the host's devices changed", nil
	}
	drift, err := p.backend.Check(ctx)
	if err != nil {
		return "", fmt.Errorf("proxy: %w", err)
	}
	p.metrics.checked(drift)
	return drift, nil
}

// Programmed implements hop.Hop.
func (p *Proxy) Programmed(ctx context.Context, f flow.Flow) (flow.Verdict, error) {
	n := Node{Name: p.config.Node}
	if plan := p.current.Load(); plan != nil {
		n = plan.Node
	}
	v, err := p.backend.Eval(ctx, n, f)
	if err != nil {
		return flow.Verdict{}, fmt.Errorf("proxy: %w", err)
	}
	return v, nil
}

// Remove implements hop.Hop.
func (p *Proxy) Remove(ctx context.Context) error {
	p.served, p.checked = nil, nil
	clear(p.closed)
	if p.health != nil {
		p.health.Close()
	}
	if err := p.backend.Remove(ctx); err != nil {
		return fmt.Errorf("proxy: %w", err)
	}
	return nil
}

// memo keeps the plan of one snapshot and node, so that asking about many flows decides once.
type memo struct{ last atomic.Pointer[remembered] }

type remembered struct {
	s    *model.Snapshot
	node string
	host []netip.Addr
	plan *Plan
}

func (m *memo) plan(s *model.Snapshot, c Config) *Plan {
	host := c.host()
	if r := m.last.Load(); r != nil && r.s == s && r.node == c.Node && slices.Equal(r.host, host) {
		return r.plan
	}
	r := &remembered{s, c.Node, host, c.Decide(s)}
	m.last.Store(r)
	return r.plan
}
