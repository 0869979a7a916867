package proxy

import (
	"fmt"
	"slices"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy/health"
	"github.com/podway/podway/internal/model"
)

// grace is how long applies may fail before load balancers are told to go elsewhere: the old rules still lead somewhere.
const grace = 10 * time.Second

// healthy reports whether this node's rules follow the cluster.
func (p *Proxy) healthy() bool {
	since := p.failing.Load()
	return since == 0 || time.Since(time.Unix(since, 0)) < grace
}

// answer makes the healthCheckNodePorts answer by the plan. A port that cannot be opened is a finding and is tried again.
func (p *Proxy) answer(plan *Plan) []flow.Finding {
	if p.health == nil {
		return nil
	}
	var old model.Map[model.Name, *Service]
	if p.checked != nil && slices.Equal(p.checked.Node.Addrs, plan.Node.Addrs) {
		old = p.checked.Services
	}
	var out []flow.Finding
	model.Changed(old, plan.Services, func(n model.Name) { out = append(out, p.answerFor(n, plan)...) })
	for _, n := range p.health.Names() { // Services that went while their addresses were unknown
		if s := plan.Services.At(n); s == nil || s.HealthPort == 0 {
			out = append(out, p.answerFor(n, plan)...)
		}
	}
	p.checked = plan
	if len(out) > 0 {
		p.checked = nil
	}
	return out
}

func (p *Proxy) answerFor(n model.Name, plan *Plan) []flow.Finding {
	c := health.Check{Service: n}
	if s := plan.Services.At(n); s != nil {
		c.Port, c.Endpoints = s.HealthPort, s.Ready
	}
	if err := p.health.Set(n, c, plan.Node.Addrs); err != nil {
		return []flow.Finding{finding(flow.HealthPortTaken, "Service "+n.String(),
			fmt.Sprintf("healthCheckNodePort %d of Service %s cannot be opened on node %s: %v.", c.Port, n, plan.Node.Name, err))}
	}
	return nil
}
