package announce

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// recorder is an Announcer in memory.
type recorder struct {
	now   []Claim
	calls int
	fail  error
}

func (r *recorder) Announce(_ context.Context, want []Claim) error {
	r.calls++
	if r.fail == nil {
		r.now = want
	}
	return r.fail
}

func (r *recorder) Status() (out []Status) {
	for _, c := range r.now {
		out = append(out, Status{Addr: c.Addr, Interfaces: []string{"eth0"}})
	}
	return out
}

func (r *recorder) Close() error { r.now = nil; return nil }

func to(addr string) flow.Flow {
	return flow.Flow{From: flow.FromOutside, Proto: flow.TCP, Dst: netip.AddrPortFrom(netip.MustParseAddr(addr), 80)}
}

// However the cluster changes, each address is announced by at most one node, by the declared one, and what every node
// says about itself is what is declared. Applying changes is the same as applying everything.
func TestAtMostOneNodeAnnouncesAnAddressWhateverChanges(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	const nodes = 4
	w := newWorld(nodes)
	var hops [nodes]*Hop
	var wires [nodes]*recorder
	for i := range hops {
		wires[i] = &recorder{}
		hops[i] = New(Options{Node: fmt.Sprint("n", i), Announcers: []Announcer{wires[i]}})
	}
	var old *model.Snapshot
	for step := range 600 {
		i := rnd.IntN(5)
		name, addr := fmt.Sprint("s", i), fmt.Sprintf("203.0.113.%d", rnd.IntN(4))
		switch rnd.IntN(5) {
		case 0:
			w.service(name, addr)
		case 1:
			w.service(name, addr, local)
		case 2:
			w.pods(name, func(e *model.Endpoint) { e.Ready = rnd.IntN(3) > 0 }, rnd.IntN(nodes), rnd.IntN(nodes))
		case 3:
			w.node(rnd.IntN(nodes), func(n *model.Node) { n.Ready = rnd.IntN(3) > 0 })
		case 4:
			w.b.Delete(&model.Service{Name: model.N("shop", name)})
		}
		s := w.snapshot()
		c := model.Diff(old, s)
		old = s
		for n, h := range hops {
			if _, err := h.Apply(context.Background(), s, c); err != nil {
				t.Fatal(err)
			}
			if full, _ := Plan(s, h.o.Node); !slices.EqualFunc(full, wires[n].now, func(a, b Claim) bool { return a.Addr == b.Addr }) {
				t.Fatalf("step %d: node n%d announces %v, a full apply %v", step, n, wires[n].now, full)
			}
		}
		for a := range 4 {
			f := to(fmt.Sprintf("203.0.113.%d", a))
			want := Declared(s, f)
			for n, h := range hops {
				here := slices.ContainsFunc(wires[n].now, func(c Claim) bool { return c.Addr == f.Dst.Addr() })
				if here != (want.Node == h.o.Node) {
					t.Fatalf("step %d: %s is declared for %q, n%d announces: %v", step, f.Dst, want.Node, n, here)
				}
				if got, err := h.Programmed(context.Background(), f); err != nil || !got.Same(want) {
					t.Fatalf("step %d: n%d says %s (%s), declared is %s", step, n, got, got.Why, want)
				}
			}
		}
	}
}

func TestApplyDoesNothingForChangesThatDoNotConcernIt(t *testing.T) {
	w := newWorld(2)
	w.service("a", "203.0.113.1")
	w.service("web", "", func(s *model.Service) { s.Type = model.ClusterIP })
	one := w.snapshot()
	r := &recorder{}
	h := New(Options{Node: "n0", Announcers: []Announcer{r}})
	if _, err := h.Apply(context.Background(), one, model.Everything()); err != nil {
		t.Fatal(err)
	}
	w.pods("web", nil, 0)
	w.pods("a", nil, 1) // its policy is Cluster
	w.node(1, func(n *model.Node) { n.Labels = map[string]string{"x": "y"} })
	two := w.snapshot()
	if _, err := h.Apply(context.Background(), two, model.Diff(one, two)); err != nil || r.calls != 1 {
		t.Errorf("%d calls, %v", r.calls, err)
	}
	w.node(1, notReady)
	three := w.snapshot()
	r.fail = errors.New("no socket")
	if _, err := h.Apply(context.Background(), three, model.Diff(two, three)); err == nil {
		t.Error("the Announcer's error is lost")
	}
	r.fail = nil
	if _, err := h.Apply(context.Background(), three, model.Change{}); err != nil || r.calls != 3 {
		t.Errorf("after an error all is applied again: %d calls, %v", r.calls, err)
	}
	if err := h.Remove(context.Background()); err != nil || r.now != nil {
		t.Errorf("after Remove: %v, %v", r.now, err)
	}
}

func TestExplainNamesTheCause(t *testing.T) {
	for name, c := range map[string]struct {
		make func(w world)
		want string
	}{
		"all is well": {func(w world) { w.service("a", "203.0.113.1") }, ""},
		"no address":  {func(w world) { w.service("a", "") }, "PW-3001 no AddressPool with a free address fits | declared AddressPool pool has 203.0.113.0-203.0.113.255 2001:db8::-2001:db8::ff, 0 addresses taken"},
		"no pool": {func(w world) { w.service("a", ""); w.b.Delete(&model.Pool{Name: "pool"}) },
			"PW-3001 the cluster has no AddressPool"},
		"foreign class": {func(w world) { w.service("a", "", class("x/y")) },
			`PW-3003 spec.loadBalancerClass is "x/y": another controller gives and announces its address`},
		"no node": {func(w world) { w.service("a", "203.0.113.1"); w.node(0, notReady); w.node(1, notReady) },
			"PW-3002 no node may announce 203.0.113.1: every node is not ready | declared node n0 is not ready | declared node n1 is not ready"},
		"no local Pod": {func(w world) { w.service("a", "203.0.113.1", local); w.node(0, notReady) },
			"PW-3002 no node may announce 203.0.113.1 | declared node n0 is not ready | declared node n1 has no ready Pod of Service shop/a, and externalTrafficPolicy is Local"},
		"IPv6": {func(w world) { w.service("a", "2001:db8::1") },
			"PW-3002 2001:db8::1 is an IPv6 address, and neighbour discovery is not supported yet"},
		"another type": {func(w world) { w.service("a", "", func(s *model.Service) { s.Type = model.ClusterIP }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2)
			c.make(w)
			var got []string
			for _, f := range Explain(w.snapshot(), model.N("shop", "a")) {
				got = append(got, strings.Join(append([]string{string(f.Code) + " " + f.Cause}, f.Evidence...), " | "))
				if f.Object != "Service shop/a" || f.Fix == "" {
					t.Errorf("object %q, fix %q", f.Object, f.Fix)
				}
			}
			if d := cmp.Diff(c.want, strings.Join(got, "\n")); d != "" {
				t.Error(d)
			}
		})
	}
}

func TestDeclaredPassesWhatIsNotPodways(t *testing.T) {
	w := newWorld(1)
	w.service("a", "198.51.100.7")
	for addr, why := range map[string]string{"198.51.100.7": "is in no AddressPool", "192.0.2.1": "is no LoadBalancer address"} {
		if v := Declared(w.snapshot(), to(addr)); v.Action != flow.Pass || !strings.Contains(v.Why, why) {
			t.Errorf("%s: %s, %q", addr, v, v.Why)
		}
	}
}
