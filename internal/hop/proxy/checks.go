package proxy

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy/health"
	"github.com/podway/podway/internal/model"
)

// grace is how long a change may wait for its rules, when nothing else is said, before load balancers are told to go elsewhere:
// the old rules still lead somewhere.
const grace = 10 * time.Second

// answer makes the healthCheckNodePorts answer by the plan. A port that cannot be opened is a finding, and is tried again at
// each Check.
func (p *Proxy) answer(plan *Plan) {
	if p.health == nil {
		return
	}
	var old model.Map[model.Name, *Service]
	if p.checked != nil && slices.Equal(p.checked.Node.Addrs, plan.Node.Addrs) {
		old = p.checked.Services
	}
	p.checked = plan
	model.Changed(old, plan.Services, p.answerFor)
	for _, n := range p.health.Names() { // Services that went while their addresses were unknown
		if s := plan.Services.At(n); s == nil || s.HealthPort == 0 {
			p.answerFor(n)
		}
	}
}

// answerFor opens, changes or closes one Service's check.
func (p *Proxy) answerFor(n model.Name) {
	c := health.Check{Service: n}
	if s := p.checked.Services.At(n); s != nil {
		c.Port, c.Endpoints = s.HealthPort, s.Ready
	}
	err := p.health.Set(n, c, p.checked.Node.Addrs)
	if err == nil {
		delete(p.closed, n)
		return
	}
	f := finding(flow.HealthPortTaken, "Service "+n.String(),
		fmt.Sprintf("healthCheckNodePort %d of Service %s cannot be opened on node %s: %v.", c.Port, n, p.checked.Node.Name, err))
	if _, known := p.closed[n]; !known && p.event != nil {
		p.event(n, "FailedToStartServiceHealthcheck", f.Cause)
	}
	p.closed[n] = f
}

// openAgain tries the ports that could not be opened.
func (p *Proxy) openAgain() {
	for _, n := range slices.Collect(maps.Keys(p.closed)) {
		p.answerFor(n)
	}
}

// closedPorts are the findings of the ports that cannot be opened, in the order of their Services' names.
func (p *Proxy) closedPorts() (out []flow.Finding) {
	for _, n := range slices.SortedFunc(maps.Keys(p.closed), model.Name.Compare) {
		out = append(out, p.closed[n])
	}
	return out
}
