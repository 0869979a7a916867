package announce

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
)

// world makes snapshots: nodes n0, n1, ..., one pool 203.0.113.0/24, Services by name.
type world struct{ b *model.Builder }

func newWorld(nodes int) world {
	w := world{model.NewBuilder(nil)}
	for i := range nodes {
		w.node(i)
	}
	w.b.Put(&model.Pool{Name: "pool", AutoAssign: true, Ranges: []model.AddrRange{
		{From: netip.MustParseAddr("203.0.113.0"), To: netip.MustParseAddr("203.0.113.255")},
		{From: netip.MustParseAddr("2001:db8::"), To: netip.MustParseAddr("2001:db8::ff")}}})
	return w
}

func (w world) node(i int, edit ...func(*model.Node)) {
	n := &model.Node{Name: fmt.Sprint("n", i), Ready: true, Addrs: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)})}}
	for _, e := range edit {
		e(n)
	}
	w.b.Put(n)
}

func (w world) service(name, addr string, edit ...func(*model.Service)) {
	s := &model.Service{Name: model.N("shop", name), Type: model.LoadBalancer}
	if addr != "" {
		s.LoadBalancerIPs = []model.LoadBalancerIP{{Addr: netip.MustParseAddr(addr)}}
	}
	for _, e := range edit {
		e(s)
	}
	w.b.Put(s)
}

// pods gives the Service ready endpoints on the nodes.
func (w world) pods(name string, edit func(*model.Endpoint), nodes ...int) {
	sl := &model.EndpointSlice{Name: model.N("shop", name+"-1"), Service: model.N("shop", name)}
	for _, n := range nodes {
		e := model.Endpoint{Addr: netip.MustParseAddr("10.244.0.9"), Ready: true, Serving: true, Node: fmt.Sprint("n", n)}
		if edit != nil {
			edit(&e)
		}
		sl.Endpoints = append(sl.Endpoints, e)
	}
	w.b.Put(sl)
}

func (w world) snapshot() *model.Snapshot { return w.b.Snapshot(time.Now()) }

func local(s *model.Service) { s.ExternalPolicyLocal = true }

func owners(s *model.Snapshot) map[netip.Addr]string {
	out := map[netip.Addr]string{}
	for _, e := range Elect(s) {
		out[e.Addr] = e.Owner
	}
	return out
}

func TestANodeThatGoesMovesOnlyItsOwnAddresses(t *testing.T) {
	w := newWorld(10)
	for i := range 200 {
		w.service(fmt.Sprint("s", i), fmt.Sprintf("203.0.113.%d", i))
	}
	before, share := owners(w.snapshot()), map[string]int{}
	for _, n := range before {
		share[n]++
	}
	for i := range 10 {
		if got := share[fmt.Sprint("n", i)]; got < 8 || got > 36 {
			t.Errorf("node n%d has %d of 200 addresses", i, got)
		}
	}
	w.node(3, func(n *model.Node) { n.Ready = false })
	for a, n := range owners(w.snapshot()) {
		if was := before[a]; n != was && was != "n3" || n == "n3" {
			t.Errorf("%s moved from %s to %s", a, was, n)
		}
	}
	w.node(3)
	for a, n := range owners(w.snapshot()) {
		if n != before[a] {
			t.Errorf("%s did not come back from %s to %s", a, n, before[a])
		}
	}
}

func TestWhoMayAnnounce(t *testing.T) {
	for name, c := range map[string]struct {
		make func(w world)
		want string // owner, "" = nobody
	}{
		"any fit node":                          {func(w world) { w.service("a", "203.0.113.1"); w.node(0, notReady) }, "n1"},
		"not one that is excluded":              {func(w world) { w.service("a", "203.0.113.1"); w.node(1, func(n *model.Node) { n.ExcludeLB = true }) }, "n0"},
		"not one that goes":                     {func(w world) { w.service("a", "203.0.113.1"); w.node(1, func(n *model.Node) { n.Deleting = true }) }, "n0"},
		"with Local, only one with a ready Pod": {func(w world) { w.service("a", "203.0.113.1", local); w.pods("a", nil, 1) }, "n1"},
		"with Local and no ready Pod, nobody": {func(w world) {
			w.service("a", "203.0.113.1", local)
			w.pods("a", func(e *model.Endpoint) { e.Ready, e.Serving = false, false }, 1)
		}, ""},
		"with Local, where the last Pods end": {func(w world) {
			w.service("a", "203.0.113.1", local)
			w.pods("a", func(e *model.Endpoint) { e.Ready, e.Terminating = false, true }, 0)
		}, "n0"},
		"two Services share it: a node that has both": {func(w world) {
			w.service("a", "203.0.113.1", local)
			w.service("b", "203.0.113.1", local)
			w.pods("a", nil, 0, 1)
			w.pods("b", nil, 1)
		}, "n1"},
		"nobody, for an address of no pool":     {func(w world) { w.service("a", "198.51.100.1") }, ""},
		"somebody, if the class says podway":    {func(w world) { w.service("a", "198.51.100.1", class(model.LoadBalancerClass)); w.node(0, notReady) }, "n1"},
		"nobody, for another class":             {func(w world) { w.service("a", "203.0.113.1", class("other/lb")) }, ""},
		"nobody, for an address of a node":      {func(w world) { w.service("a", "10.0.0.1", class(model.LoadBalancerClass)) }, ""},
		"nobody, for a Service of another type": {func(w world) { w.service("a", "203.0.113.1", func(s *model.Service) { s.Type = model.NodePort }) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(2)
			c.make(w)
			got := ""
			for _, n := range owners(w.snapshot()) {
				got = n
			}
			if got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func notReady(n *model.Node) { n.Ready = false }

func class(c string) func(*model.Service) {
	return func(s *model.Service) { s.LoadBalancerClass = c }
}

// The hashes are a protocol between nodes of different versions.
func TestTheWeightsNeverChange(t *testing.T) {
	if h, w := hashOf("node-a"), weight(hashOf("node-a"), hashOf("203.0.113.1")); h != 0xe6971cc22078cb53 || w != 0xfc60b71f2b5e4e0a {
		t.Errorf("got %#x and %#x", h, w)
	}
}

func BenchmarkElect1000AddressesOf1000Nodes(b *testing.B) {
	w := newWorld(1000)
	for i := range 1000 {
		w.service(fmt.Sprint("s", i), fmt.Sprintf("203.0.%d.%d", 113+i/256, i%256), class(model.LoadBalancerClass))
	}
	s := w.snapshot()
	for b.Loop() {
		Elect(s)
	}
}
