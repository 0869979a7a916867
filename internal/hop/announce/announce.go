package announce

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
)

// Claim is an address that this node shall announce.
type Claim struct {
	Addr     netip.Addr
	Services []model.Name
}

// Status is what an Announcer does for one address.
type Status struct {
	Addr       netip.Addr
	Interfaces []string // where it answers now
	Problem    string   // why it does not, or what disturbs it; "" = fine
}

// Announcer makes the outside send packets for addresses to this node. Announce gets the whole set: what is missing in it
// is withdrawn before Announce returns. Claims that it cannot serve, such as those of another family, it leaves out of
// Status. Status may be called at any time.
type Announcer interface {
	Announce(ctx context.Context, want []Claim) error
	Status() []Status
	Close() error
}

// Options say for whom the hop works.
type Options struct {
	Node       string // this node's name
	Announcers []Announcer
}

// Hop is hop announce of one node.
type Hop struct {
	o     Options
	last  *model.Snapshot // that was applied without error
	owned []Claim
	found []flow.Finding

	applied atomic.Pointer[electorate] // of the newest snapshot, what this node goes by
	asked   atomic.Pointer[electorate] // of the snapshot that Declared was asked about last
}

var _ hop.Hop = (*Hop)(nil)

// New makes the hop. It takes the Announcers over: Remove closes them.
func New(o Options) *Hop { return &Hop{o: o} }

// Name is "announce".
func (h *Hop) Name() string { return "announce" }

// Apply announces what this node owns and withdraws the rest.
func (h *Hop) Apply(ctx context.Context, s *model.Snapshot, c model.Change) (hop.Report, error) {
	start := time.Now()
	if !c.All && h.last != nil && !h.concerns(s, c) {
		h.last = s
		return hop.Report{Took: time.Since(start), Findings: h.found}, nil
	}
	e := newElectorate(s)
	h.applied.Store(e)
	claims, findings := e.plan(h.o.Node)
	var errs []error
	for _, a := range h.o.Announcers {
		if err := a.Announce(ctx, claims); err != nil {
			errs = append(errs, fmt.Errorf("announce: %w", err))
		}
	}
	r := hop.Report{Changed: difference(h.owned, claims), Full: true, Took: time.Since(start), Findings: findings}
	h.last, h.owned, h.found = s, claims, findings
	if err := errors.Join(errs...); err != nil {
		h.last = nil
		return r, err
	}
	return r, nil
}

// Plan is what the node announces, and what is wrong with addresses that nobody announces.
func Plan(s *model.Snapshot, node string) ([]Claim, []flow.Finding) {
	return newElectorate(s).plan(node)
}

func (e *electorate) plan(node string) (claims []Claim, findings []flow.Finding) {
	for _, el := range e.all() {
		switch {
		case el.Foreign != "":
		case !el.Addr.Is4():
			findings = append(findings, unsupported(el))
		case el.Owner == "":
			findings = append(findings, notAnnounced(el))
		case el.Owner == node:
			claims = append(claims, Claim{Addr: el.Addr, Services: el.Services})
		}
	}
	return claims, findings
}

// concerns reports whether a change can move an address.
func (h *Hop) concerns(s *model.Snapshot, c model.Change) bool {
	if len(c.Pools) > 0 {
		return true
	}
	for _, n := range c.Nodes {
		a, b := h.last.Nodes.At(n), s.Nodes.At(n)
		if a == nil || b == nil || unfit(a) != unfit(b) || !slices.Equal(a.Addrs, b.Addrs) {
			return true
		}
	}
	for _, n := range c.Services {
		a, b := h.last.Services.At(n), s.Services.At(n)
		if announcedFor(a) != announcedFor(b) || a != b && announcedFor(b) || announcedFor(b) && b.ExternalPolicyLocal {
			return true
		}
	}
	return false
}

func announcedFor(svc *model.Service) bool {
	return svc != nil && svc.Type == model.LoadBalancer && len(svc.LoadBalancerIPs) > 0
}

func difference(old, new []Claim) (n int) {
	has := func(l []Claim, a netip.Addr) bool {
		return slices.ContainsFunc(l, func(c Claim) bool { return c.Addr == a })
	}
	for _, c := range new {
		if !has(old, c.Addr) {
			n++
		}
	}
	for _, c := range old {
		if !has(new, c.Addr) {
			n++
		}
	}
	return n
}

// Declared is which node a packet for f's destination arrives at.
func (h *Hop) Declared(s *model.Snapshot, f flow.Flow) flow.Verdict {
	e := h.asked.Load()
	if e == nil || e.s != s {
		e = newElectorate(s)
		h.asked.Store(e)
	}
	return declared(e, f)
}

// Programmed is whether this node answers for f's destination now, and if it does not, to which node it leaves that.
func (h *Hop) Programmed(_ context.Context, f flow.Flow) (flow.Verdict, error) {
	why := fmt.Sprintf("node %s does not answer for %s", h.o.Node, f.Dst.Addr())
	for _, a := range h.o.Announcers {
		for _, st := range a.Status() {
			if st.Addr == f.Dst.Addr() && len(st.Interfaces) > 0 {
				return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{f.Dst}, Node: h.o.Node,
					Why: fmt.Sprintf("node %s answers for %s on %v", h.o.Node, st.Addr, st.Interfaces)}, nil
			}
			if st.Addr == f.Dst.Addr() {
				why += ": " + st.Problem
			}
		}
	}
	if e := h.applied.Load(); e != nil {
		if v := declared(e, f); v.Node != h.o.Node {
			v.Why, v.Findings = why+"; "+v.Why, nil
			return v, nil
		}
	}
	return flow.Verdict{Action: flow.Dropped, Why: why}, nil
}

// Remove withdraws everything. Nothing of this hop outlives its process.
func (h *Hop) Remove(context.Context) error {
	var errs []error
	for _, a := range h.o.Announcers {
		errs = append(errs, a.Close())
	}
	h.last, h.owned = nil, nil
	h.applied.Store(nil)
	return errors.Join(errs...)
}
