package iptables

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
)

// list is a chain to which every Service adds rules of its own. Their order says nothing: no two match the same packet,
// except that late ones stand behind all others.
type list struct{ table, chain string }

// late marks a list whose rules stand behind all others of its chain.
const late = " late"

// chainName is the chain that the list is in.
func (l list) chainName() string { return strings.TrimSuffix(l.chain, late) }

// The lists.
var (
	natServices    = list{kipt.NAT, services}
	natNodePorts   = list{kipt.NAT, nodePorts}
	notServed      = list{kipt.Filter, services}
	notServedFar   = list{kipt.Filter, external}
	notServedPorts = list{kipt.Filter, external + late} // node ports, behind addresses of which a node may have one
	notAllowed     = list{kipt.Filter, firewall}
	healthPorts    = list{kipt.Filter, nodePorts}
	otherPorts     = list{kipt.Filter, clusterIPs}
)

// sheet is what Services want in one address family.
type sheet struct {
	is4    bool
	plan   *proxy.Plan
	pods   pods
	chains map[string]map[string]string // table -> chain of one port -> its rules
	lists  map[list][]string            // rules, one a line
	blocks map[netip.Prefix]int         // ranges that ClusterIPs are in, and how many are
	ports  int

	pen  pen
	room []byte
}

func newSheet(p *proxy.Plan, f kipt.Family, services int) *sheet {
	return &sheet{
		is4: f == kipt.IPv4, plan: p, pods: podsOf(p, f == kipt.IPv4),
		chains: map[string]map[string]string{kipt.NAT: make(map[string]string, 4*services), kipt.Filter: {}},
		lists:  map[list][]string{}, blocks: map[netip.Prefix]int{},
	}
}

// collect writes down what all Services of a plan want.
func collect(p *proxy.Plan, f kipt.Family) *sheet {
	s := newSheet(p, f, p.Services.Len())
	for svc := range p.Services.Values() {
		s.add(svc)
	}
	return s
}

// note adds the rule that the pen has written to a list.
func (s *sheet) note(l list) { s.lists[l] = append(s.lists[l], s.pen.take()) }

// chain adds a chain with the rules that the pen has written.
func (s *sheet) chain(table, name string) { s.chains[table][name] = s.pen.take() }

// add writes down what one Service wants; nil wants nothing.
func (s *sheet) add(svc *proxy.Service) {
	if svc == nil {
		return
	}
	var first *proxy.Port
	for _, p := range svc.Ports {
		if p.Is4() != s.is4 {
			continue
		}
		s.ports++
		s.port(p)
		if first == nil || first.ClusterIP.Addr() != p.ClusterIP.Addr() {
			s.otherPorts(p)
		}
		if first == nil {
			first = p
		}
	}
	if first != nil && svc.HealthPort != 0 {
		s.pen.start(nodePorts).proto("tcp").comment(nameOf(first), " health check node port").port("tcp", svc.HealthPort).jump("ACCEPT")
		s.note(healthPorts)
	}
}

// otherPorts refuses what comes to the ClusterIP and was not translated.
func (s *sheet) otherPorts(p *proxy.Port) {
	vip := p.ClusterIP.Addr()
	s.pen.start(clusterIPs).host(vip).comment(p.Service.String(), " has no such port").refuse(s.is4)
	s.note(otherPorts)
	s.blocks[blockOf(vip)]++
}

// blockOf is the range of 65,536 addresses that an address is in. Only packets to ranges with ClusterIPs pass the list of
// them.
func blockOf(a netip.Addr) netip.Prefix { return netip.PrefixFrom(a, a.BitLen()-16).Masked() }

func nameOf(p *proxy.Port) string { return portName(p.Service.Namespace, p.Service.Name, p.Name) }

// sorted are the ranges of ClusterIPs in order.
func (s *sheet) sorted() []netip.Prefix {
	out := make([]netip.Prefix, 0, len(s.blocks))
	for b, n := range s.blocks {
		if n > 0 {
			out = append(out, b)
		}
	}
	slices.SortFunc(out, func(a, b netip.Prefix) int { return a.Addr().Compare(b.Addr()) })
	return out
}
