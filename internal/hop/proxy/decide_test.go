package proxy

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/model"
)

// lists writes the endpoints of the first port of shop/cart as "cluster 1.5 2.6 local 1.5", the last two numbers of each.
func lists(p *Plan) string {
	s := p.Services.At(model.N("shop", "cart"))
	if s == nil || len(s.Ports) == 0 {
		return "nothing"
	}
	short := func(as []netip.AddrPort) string {
		var out []string
		for _, a := range as {
			b := a.Addr().As4()
			out = append(out, fmt.Sprintf("%d.%d", b[2], b[3]))
		}
		return strings.Join(out, " ")
	}
	port := s.Ports[0]
	out := "cluster " + short(port.Cluster)
	if port.InternalLocal || port.ExternalLocal {
		out += " local " + short(port.Local)
	}
	if !port.Any {
		out += " none anywhere"
	}
	return out
}

func TestEndpointsAreChosenByReadinessPolicyAndHints(t *testing.T) {
	want := map[string]string{
		"one endpoint":                                                 "cluster 1.5",
		"three endpoints":                                              "cluster 1.5 2.6 2.7",
		"no slice":                                                     "cluster  none anywhere",
		"no ready endpoint":                                            "cluster  none anywhere",
		"external Local with an endpoint here":                         "cluster 1.5 2.6 2.7 local 1.5",
		"external Local with endpoints elsewhere":                      "cluster 2.6 2.7 local ",
		"internal Local with an endpoint here":                         "cluster  local 1.5",
		"internal Local, exposed, endpoints elsewhere":                 "cluster 2.6 2.7 local ",
		"draining here, ready elsewhere":                               "cluster 2.6 local 1.5",
		"draining everywhere":                                          "cluster 1.5 2.6 local 1.5",
		"draining elsewhere only":                                      "cluster  local ",
		"hints for this node":                                          "cluster 1.5",
		"hints for other nodes only":                                   "cluster 2.6 2.7",
		"hints for this zone":                                          "cluster 1.5",
		"node hints that fail and zone hints that hold":                "cluster 1.5",
		"one ready endpoint without hint":                              "cluster 1.5 2.6",
		"hints and a draining endpoint":                                "cluster 2.6",
		"one endpoint in two slices":                                   "cluster 1.5 2.6 2.7",
		"another proxy's Service":                                      "nothing",
		"headless":                                                     "nothing",
		"endpoints of the host network with one address and two ports": "cluster 1.1 1.1",
	}
	for _, c := range hoptest.ServiceCases() {
		w, ok := want[c.Name]
		if !ok {
			continue
		}
		delete(want, c.Name)
		t.Run(c.Name, func(t *testing.T) {
			if got := lists(Decide(c.Snapshot, hoptest.NodeA)); got != w {
				t.Errorf("got %q, want %q", got, w)
			}
		})
	}
	for name := range want {
		t.Errorf("no case %q", name)
	}
}

// same compares what two plans do, whatever objects they were made from.
func samePlans(a, b *Plan) string {
	flat := func(p *Plan) map[model.Name]any {
		out := map[model.Name]any{}
		for n, s := range p.Services.All() {
			out[n] = []any{s.Ports, s.Shadowed}
		}
		return out
	}
	return cmp.Diff(flat(a), flat(b), cmp.Comparer(func(x, y netip.AddrPort) bool { return x == y }),
		cmp.Comparer(func(x, y netip.Addr) bool { return x == y }), cmp.Comparer(func(x, y netip.Prefix) bool { return x == y }))
}

func TestAPlanThatFollowsChangesIsThePlanMadeAnew(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	cases := hoptest.ServiceCases()
	p := NewPlanner(hoptest.NodeA)
	var have *model.Snapshot
	for range 400 {
		c := cases[rnd.IntN(len(cases))]
		got, _ := p.Update(c.Snapshot, model.Diff(have, c.Snapshot))
		if d := samePlans(Decide(c.Snapshot, hoptest.NodeA), got); d != "" {
			t.Fatalf("%s: %s", c.Name, d)
		}
		have = c.Snapshot
	}
}

func TestAServiceThatDoesNotChangeKeepsItsPointer(t *testing.T) {
	c := hoptest.NewCluster().Put(hoptest.Service("cart", 7), hoptest.Slice("cart", hoptest.Ready("10.244.1.5")), hoptest.Service("web", 8))
	one := c.Snapshot()
	p := NewPlanner(hoptest.NodeA)
	first, decided := p.Update(one, model.Everything())
	if decided != 2 {
		t.Errorf("decided %d Services, want 2", decided)
	}
	two := c.Put(hoptest.Slice("cart", hoptest.Ready("10.244.2.6"))).Snapshot()
	second, decided := p.Update(two, model.Diff(one, two))
	web, cart := model.N("shop", "web"), model.N("shop", "cart")
	if decided != 1 || second.Services.At(web) != first.Services.At(web) || second.Services.At(cart) == first.Services.At(cart) {
		t.Errorf("decided %d Services; web kept %v, cart kept %v", decided, second.Services.At(web) == first.Services.At(web), second.Services.At(cart) == first.Services.At(cart))
	}
	third, _ := p.Update(two, model.Everything())
	if third.Services.At(cart) != second.Services.At(cart) {
		t.Error("deciding everything again made a new plan for a Service that did not change")
	}
	relabelled := hoptest.Slice("cart", hoptest.Ready("10.244.2.6"))
	relabelled.Labels = map[string]string{"new": "label"}
	four := c.Put(relabelled).Snapshot()
	fourth, _ := p.Update(four, model.Diff(two, four))
	if fourth.Services.At(cart) != second.Services.At(cart) {
		t.Error("a change that means nothing here made a new plan")
	}
}

func TestTheFirstClaimToAnAddressWinsAndTheOtherTakesOver(t *testing.T) {
	ext := func(s *model.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1")} }
	vip := func(s *model.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("10.96.0.9")} }
	c := hoptest.NewCluster().Put(hoptest.Service("b", 8, ext), hoptest.Service("a", 7, ext), hoptest.Service("thief", 6, vip), hoptest.Service("victim", 9))
	p := NewPlanner(hoptest.NodeA)
	have := c.Snapshot()
	plan, _ := p.Update(have, model.Everything())
	frontends := func(name string) int { return len(plan.Services.At(model.N("shop", name)).Ports[0].External) }
	if frontends("a") != 1 || frontends("b") != 0 || frontends("thief") != 0 {
		t.Errorf("a, b and thief have %d, %d and %d frontends; want 1, 0, 0", frontends("a"), frontends("b"), frontends("thief"))
	}
	if got := plan.Services.At(model.N("shop", "b")).shadowed(); len(got) != 1 || !strings.Contains(got[0].Cause, "shop/a") {
		t.Errorf("findings of b: %+v", got)
	}
	if len(plan.Services.At(model.N("shop", "victim")).Ports) != 1 {
		t.Error("an externalIP took a ClusterIP away")
	}
	b := model.NewBuilder(have)
	b.Delete(hoptest.Service("a", 7))
	next := b.Snapshot(time.Unix(1, 0))
	plan, _ = p.Update(next, model.Diff(have, next))
	if frontends("b") != 1 || len(plan.Services.At(model.N("shop", "b")).Shadowed) != 0 {
		t.Error("b did not take over when a went")
	}
}

func BenchmarkDecide10000(b *testing.B) {
	c := hoptest.NewCluster()
	for i := range 10000 {
		name := fmt.Sprintf("s%d", i)
		s := hoptest.Service(name, 1)
		s.ClusterIPs[0] = netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})
		var eps []model.Endpoint
		for e := range 10 {
			eps = append(eps, hoptest.Ready(fmt.Sprintf("10.244.%d.%d", e%2+1, (i+e)%250)))
		}
		c.Put(s, hoptest.Slice(name, eps...))
	}
	s := c.Snapshot()
	b.ReportAllocs()
	for b.Loop() {
		Decide(s, hoptest.NodeA)
	}
}
