package proxy

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// A mode follows another on a live node: the new rules stand beside the old ones, are proven, and only then the old ones go.
// While both stand, each new connection is translated by one of them, to the same endpoints.

const (
	provenFlows = 200 // flows that are compared with what the cluster says
	probes      = 5   // Services that are really connected to
	probeWait   = 2 * time.Second
	switchRetry = time.Minute // after old rules had to be put back
)

// Dial opens a TCP connection from the node's own network namespace.
type Dial func(ctx context.Context, to netip.AddrPort) error

// change is the state of a switch from other modes.
type change struct {
	others   []Backend
	dial     Dial
	told     func(from, to, reached string)
	done     bool // nothing of another mode is left
	next     time.Time
	findings []flow.Finding
}

// leave removes what other modes left, once the rules of this one are proven.
func (p *Proxy) leave(ctx context.Context, s *model.Snapshot, plan *Plan) {
	c := &p.change
	if c.done || time.Now().Before(c.next) {
		return
	}
	c.findings, c.done = nil, true
	for _, other := range c.others {
		if beside(p.backend, other) {
			continue
		}
		left, err := Left(ctx, other)
		if err == nil && left {
			err = p.replace(ctx, s, plan, other)
		}
		if err != nil {
			c.findings = append(c.findings, finding(flow.ModeLeftover, "node "+p.config.Node,
				fmt.Sprintf("Rules of proxy mode %s are left on node %s beside those of %s: %v.", other.Name(), p.config.Node, p.backend.Name(), err)))
			c.done, c.next = false, time.Now().Add(switchRetry)
		}
	}
}

// replace proves the rules of this mode, removes those of another, and puts them back if connections fail then that did not
// before.
func (p *Proxy) replace(ctx context.Context, s *model.Snapshot, plan *Plan, other Backend) error {
	if err := p.prove(ctx, s, plan); err != nil {
		return err
	}
	before := p.reach(ctx, plan)
	if err := removeOwn(ctx, other); err != nil {
		return fmt.Errorf("remove: %w", err)
	}
	after := p.reach(ctx, plan)
	for at, err := range after {
		if err == nil || before[at] != nil {
			continue
		}
		if _, again := other.Apply(ctx, plan); again != nil {
			return fmt.Errorf("%s is not reached any more (%w), and the old rules cannot be put back: %w", at, err, again)
		}
		return fmt.Errorf("without them %s is not reached (%w); they were put back", at, err)
	}
	p.switched(other.Name(), before)
	return nil
}

// prove reads this mode's rules back and lets them decide about flows of which the cluster says what becomes of them.
func (p *Proxy) prove(ctx context.Context, s *model.Snapshot, plan *Plan) error {
	have, err := p.backend.Read(ctx, plan.Node)
	if err != nil {
		return fmt.Errorf("read the new rules: %w", err)
	}
	if want := p.backend.Render(plan); have.Text() != want.Text() {
		return fmt.Errorf("the new rules are not what was written")
	}
	for _, f := range sample(plan) {
		said, does := p.Declared(s, f), have.Eval(f)
		if !said.Same(does) {
			return fmt.Errorf("the new rules do not do what the cluster says: %s to %s is %s, should be %s", f.Src, f.Dst, does, said)
		}
	}
	return nil
}

// sample are flows to Services of the plan, from the node itself.
func sample(plan *Plan) (out []flow.Flow) {
	for svc := range plan.Services.Values() {
		for _, port := range svc.Ports {
			if len(out) >= provenFlows {
				return out
			}
			src := plan.Node.primary(port.Is4())
			if !src.IsValid() {
				continue
			}
			out = append(out, flow.Flow{From: flow.FromNode, Sender: plan.Node.Name, Node: plan.Node.Name, Proto: port.Proto,
				Src: netip.AddrPortFrom(src, 0), Dst: port.ClusterIP})
		}
	}
	return out
}

// reach connects to a few Services from the node.
func (p *Proxy) reach(ctx context.Context, plan *Plan) map[netip.AddrPort]error {
	out := map[netip.AddrPort]error{}
	if p.change.dial == nil {
		return out
	}
	for svc := range plan.Services.Values() {
		for _, port := range svc.Ports {
			if len(out) >= probes {
				return out
			}
			if port.Proto != flow.TCP || len(port.Cluster) == 0 || port.InternalLocal {
				continue
			}
			try, stop := context.WithTimeout(ctx, probeWait)
			out[port.ClusterIP] = p.change.dial(try, port.ClusterIP)
			stop()
		}
	}
	return out
}

// switched tells which mode followed which, and what was connected to for proof.
func (p *Proxy) switched(from string, probed map[netip.AddrPort]error) {
	var words []string
	for at, err := range probed {
		if err == nil {
			words = append(words, at.String())
		}
	}
	if p.change.told != nil {
		p.change.told(from, p.backend.Name(), strings.Join(words, " "))
	}
}
