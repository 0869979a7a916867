package podnet

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
)

func TestSuiteOnFakes(t *testing.T) {
	for _, o := range []Options{{}, {Overlay: OverlayAlways}, {Overlay: OverlayNever}} {
		t.Run("overlay "+string(o.Overlay), func(t *testing.T) {
			hoptest.Run(t, suite(o, func(t *testing.T) hoptest.Host { return &fakeHost{newFakeNode(t, o)} }, 0))
		})
	}
}

func suite(o Options, host func(*testing.T) hoptest.Host, steps int) hoptest.Subject {
	o.Node = "a"
	all := cases()
	if o.Overlay == OverlayNever { // what is declared is not possible then, and a finding
		for i := range all {
			all[i].Flows = nil
		}
	}
	return hoptest.Subject{
		Cases: all, NewHost: host, Steps: steps,
		Wanted: func(s *model.Snapshot) string {
			want, _ := Plan(s, o, machine("10.0.0.1/24", "fd00::1/64"))
			return want.Text()
		},
	}
}

// cases are sets of nodes that always have "a", with the flows that its Pods and it may send.
func cases() []hoptest.Case {
	r := rand.New(rand.NewPCG(1, 2))
	out := []hoptest.Case{
		caseOf("alone", clusterOf("a 10.0.0.1 10.244.1.0/24")),
		caseOf("both families, both networks", clusterOf("a 10.0.0.1,fd00::1 10.244.1.0/24,fd44:1::/64",
			"b 10.0.0.2,fd00::2 10.244.2.0/24,fd44:2::/64", "c 10.7.0.3,fd07::3 10.244.3.0/24,fd44:3::/64")),
	}
	for i := range 12 {
		out = append(out, caseOf(fmt.Sprintf("random %d", i+1), world(r)))
	}
	return out
}

// world is a random set of nodes; "a" is always there.
func world(r *rand.Rand) *model.Snapshot {
	var lines []string
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if name != "a" && r.IntN(3) == 0 {
			continue
		}
		addr := fmt.Sprintf("%s.%d", []string{"10.0.0", "10.7.0"}[r.IntN(2)], i+1)
		if name == "a" {
			addr = "10.0.0.1"
		}
		if r.IntN(2) == 0 || name == "a" {
			addr += fmt.Sprintf(",fd00::%d", i+1)
		}
		ranges := fmt.Sprintf("10.244.%d.0/24", i+1+10*r.IntN(2)) // now and then another range
		if name == "a" {
			ranges = "10.244.1.0/24"
		}
		if r.IntN(2) == 0 {
			ranges += fmt.Sprintf(",fd44:%d::/64", i+1)
		}
		lines = append(lines, name+" "+addr+" "+ranges)
	}
	return clusterOf(lines...)
}

// caseOf asks about Pods of every range, about nodes and about the world, from a Pod, the node and outside.
func caseOf(name string, s *model.Snapshot) hoptest.Case {
	b := model.NewBuilder(s)
	b.Put(&model.Pod{Name: model.N("shop", "here"), Node: "a", Addrs: addresses("10.244.1.5"), Phase: "Running"})
	c := hoptest.Case{Name: name, Snapshot: b.Snapshot(time.Unix(0, 0))}
	dsts := addresses("203.0.113.9", "224.0.0.251", "10.244.1.5", "10.244.1.6", "10.0.0.77")
	for n := range s.Nodes.Values() {
		dsts = append(dsts, n.Addrs...)
		for _, p := range n.PodCIDRs {
			if n.Name != "a" {
				dsts = append(dsts, p.Addr().Next(), p.Addr().Next().Next())
			}
		}
	}
	for _, d := range dsts {
		src := "10.244.1.5"
		if d.Is6() {
			src = "fd44:1::5"
		}
		for _, from := range []flow.Kind{flow.FromPod, flow.FromNode, flow.FromOutside} {
			f := flow.Flow{From: from, Sender: "shop/here", Node: "a", Proto: flow.UDP, Src: netip.AddrPortFrom(netip.MustParseAddr(src), 0), Dst: netip.AddrPortFrom(d, 53)}
			if from == flow.FromNode {
				f.Sender, f.Src = "a", netip.AddrPort{}
			}
			if d.Is6() && from != flow.FromNode { // forwarding of IPv6 is on only where Pods have it
				continue
			}
			c.Flows = append(c.Flows, f)
		}
	}
	return c
}

// fakeHost is node "a" in memory, with one Pod.
type fakeHost struct{ *fakeNode }

func (h *fakeHost) Start(t *testing.T) hop.Hop {
	veth := VethName("here", "eth0")
	h.links.Links[veth] = link.Link{Name: veth, Kind: link.KindVeth, Alias: "podway: shop/here eth0", Up: true}
	must(t, h.routes.Put(route.Route{Dst: single(netip.MustParseAddr("10.244.1.5")), Device: veth, Proto: RouteProtocol}))
	h.routes.Own = addresses("10.0.0.1", "fd00::1")
	h.hop = newHop(h.hop.opt, h.hop.doors)
	return h.hop
}

func (h *fakeHost) State(t *testing.T) string {
	have, err := h.hop.read(context.Background())
	must(t, err)
	return have.State.Text()
}

func (h *fakeHost) FailWrites(refuse func() error) {
	if refuse == nil {
		refuse = func() error { return nil }
	}
	h.failing(refuse)
}
