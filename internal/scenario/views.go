package scenario

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	mdns "github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/announce"
	"github.com/podway/podway/internal/hop/dns"
	"github.com/podway/podway/internal/hop/dns/answers"
	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/modes"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
)

// The ranges of every scenario's cluster.
var (
	ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16"), netip.MustParsePrefix("fd00:96::/112")}
	ClusterCIDRs = []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:244::/32")}
)

// Declared is what the API says at every hop of a state, with the service proxy in a mode. "" is the view of level model:
// none in particular.
func Declared(st *State, mode string) trace.View {
	names, err := declaredNames(st)
	table := routes.Build(routes.Config{}, st.Snapshot)
	hops := map[string]func(*model.Snapshot, flow.Flow) flow.Verdict{
		trace.HopAnnounce: announce.Declared,
		trace.HopIngress:  func(_ *model.Snapshot, f flow.Flow) flow.Verdict { return table.Verdict(f) },
		trace.HopProxy:    proxy.New(proxy.Options{ServiceCIDRs: ServiceCIDRs, Settings: st.Settings(mode), Backend: judge(mode)}).Declared,
		trace.HopPodnet: func(s *model.Snapshot, f flow.Flow) flow.Verdict {
			return podnet.Declared(s, podnet.Options{ServiceCIDRs: ServiceCIDRs}, nil, f)
		},
	}
	if err == nil { // else the walk says that the hop was not checked
		hops[trace.HopName] = names.Declared
	}
	return trace.Functions{Snapshot: st.Snapshot, Hops: hops}
}

// declaredNames is a DNS server of the state that asks nobody else.
func declaredNames(st *State) (*dns.Hop, error) {
	o, err := st.dnsOptions()
	if err != nil {
		return nil, err
	}
	return dns.New(o)
}

// judge is the backend whose limits hold for what is declared in a mode; none does where there is no mode.
func judge(mode string) proxy.Backend {
	if mode == "" {
		return nil
	}
	return modes.Backend(mode)
}

// The mode that "" stands for where a mode is needed, and those that need something of a node.
const (
	defaultMode = "nftables"
	ebpfMode    = "ebpf" // its programs must see the sockets of their own node alone: each node has a control group
)

// rendered is the view of level rules: what each hop would write, evaluated. It follows a scenario from step to step, so
// that what is derived from an earlier state is asked, not what is made anew.
type rendered struct {
	s       *model.Snapshot
	mode    string
	backend proxy.Backend
	plans   map[string]proxy.Ruleset // by node
	planner map[string]*proxy.Planner
	names   *dns.Hop // nil = not checked
	table   *routes.Table
}

// NewRendered returns the views of level rules for one scenario, to be asked for in the order of its steps. It panics on an
// unknown proxy mode.
func NewRendered(proxyMode string) Views {
	r := &rendered{planner: map[string]*proxy.Planner{}, mode: cmp.Or(proxyMode, defaultMode), backend: modes.Backend(proxyMode)}
	if r.backend == nil {
		panic("scenario: no backend of proxy mode " + proxyMode)
	}
	return func(st *State) trace.View {
		r.follow(st)
		return r
	}
}

func (r *rendered) follow(st *State) {
	s := st.Snapshot
	change := model.Diff(r.s, s)
	if r.table == nil {
		r.table = routes.Build(routes.Config{}, s)
	} else {
		r.table = r.table.Update(s, change)
	}
	if r.names == nil {
		r.names, _ = declaredNames(st)
	}
	if r.names != nil {
		r.names.Show(s, change)
	}
	r.plans = map[string]proxy.Ruleset{}
	_, balances := r.backend.(proxy.Balancer)
	for name := range s.Nodes.All() {
		p, c := r.planner[name], change
		if p == nil {
			p, c = proxy.Config{Node: name, ServiceCIDRs: ServiceCIDRs, Settings: st.Settings(r.mode), Random: !balances}.Planner(), model.Everything()
			r.planner[name] = p
		}
		plan, _ := p.Update(s, c)
		r.plans[name] = r.backend.Render(plan)
	}
	r.s = s
}

// Verdict implements trace.View.
func (r *rendered) Verdict(_ context.Context, hop, node string, f flow.Flow) (flow.Verdict, error) {
	f.Node = node
	switch hop {
	case trace.HopName:
		if r.names != nil && f.DNS != nil {
			return r.name(*f.DNS), nil
		}
	case trace.HopAnnounce:
		return r.announced(f.Dst.Addr()), nil
	case trace.HopIngress:
		return r.table.Verdict(f), nil
	case trace.HopProxy:
		if rules := r.plans[node]; rules != nil {
			return rules.Eval(f), nil
		}
	case trace.HopPodnet:
		return r.network(f)
	}
	return flow.Verdict{}, trace.ErrNotChecked
}

// name asks the compiled answers for one candidate after the other.
func (r *rendered) name(q flow.Question) flow.Verdict {
	names := []string{q.Name}
	if !strings.HasSuffix(q.Name, ".") {
		names = nil
		for _, d := range q.Search {
			names = append(names, q.Name+"."+d)
		}
		names = append(names, q.Name)
	}
	v := flow.Verdict{Action: flow.Answer, Rcode: "NXDOMAIN"}
	for _, n := range names {
		found := r.names.Find(mdns.Fqdn(n), mdns.StringToType[q.Type])
		if found.Kind == answers.Foreign {
			if n == q.Name && v.Name == "" && strings.Contains(n, ".") && !strings.HasSuffix(n, ".local") {
				return flow.Verdict{Action: flow.Pass, Why: "not a name of the cluster"}
			}
			continue
		}
		if found.Rcode == mdns.RcodeNameError {
			continue
		}
		v.Name, v.Rcode, v.Records = mdns.Fqdn(n), mdns.RcodeToString[found.Rcode], nil
		for _, rr := range found.Answer {
			v.Records = append(v.Records, dns.Record(rr))
		}
		slices.Sort(v.Records)
		return v
	}
	return v
}

// announced is the node whose plan claims the address.
func (r *rendered) announced(a netip.Addr) flow.Verdict {
	v := flow.Verdict{Action: flow.Pass, Why: "no node claims " + a.String()}
	for name := range r.s.Nodes.All() {
		claims, findings := announce.Plan(r.s, name)
		for _, f := range findings {
			if strings.Contains(f.Cause, a.String()) {
				v.Action, v.Findings = flow.Dropped, []flow.Finding{f}
			}
		}
		if slices.ContainsFunc(claims, func(c announce.Claim) bool { return c.Addr == a }) {
			if v.Node != "" {
				return flow.Verdict{Action: flow.Dropped, Why: fmt.Sprintf("%s and %s both claim %s", v.Node, name, a)}
			}
			v = flow.Verdict{Action: flow.Forward, Node: name, Targets: []netip.AddrPort{netip.AddrPortFrom(a, 0)}}
		}
	}
	return v
}
