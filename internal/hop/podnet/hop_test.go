package podnet

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
)

// fakeNode is node "a" with all its doors in memory.
type fakeNode struct {
	t      *testing.T
	hop    *Hop
	links  *link.Fake
	routes *route.Fake
	rules  *nft.Fake
	sysctl *sysctl.Fake
}

func newFakeNode(t *testing.T, o Options) *fakeNode {
	host := machine("10.0.0.1/24", "fd00::1/64")
	n := &fakeNode{
		t: t, links: link.NewFake(host.Links...), routes: &route.Fake{Table: host.Routes}, rules: nft.NewFake(),
		sysctl: &sysctl.Fake{Values: map[string]string{"net/ipv4/ip_forward": "0", "net/ipv6/conf/all/forwarding": "0"}},
	}
	n.links.Gone = n.routes.DeviceGone
	o.Node, o.ConfigPath, o.StoreDir = "a", filepath.Join(t.TempDir(), "podnet.json"), filepath.Join(t.TempDir(), "store")
	n.hop = newHop(o, doors{links: n.links, routes: n.routes, neighbours: n.routes, sysctl: n.sysctl, rules: n.rules})
	return n
}

// failing makes every write fail by chance.
func (n *fakeNode) failing(fail func() bool) {
	f := func(op string) error {
		if fail() {
			return fmt.Errorf("injected: %s", op)
		}
		return nil
	}
	n.links.Fail, n.routes.Fail, n.sysctl.Fail = f, f, f
	n.rules.Fail = func([]nft.Op) error { return f("rules") }
}

func (n *fakeNode) apply(s *model.Snapshot, c model.Change) ([]flow.Finding, error) {
	r, err := n.hop.Apply(context.Background(), s, c)
	return r.Findings, err
}

func (n *fakeNode) must(err error) {
	n.t.Helper()
	if err != nil {
		n.t.Fatal(err)
	}
}

// matches says whether what is read is what is planned.
func (n *fakeNode) matches(s *model.Snapshot) string {
	n.t.Helper()
	have, err := n.hop.read(context.Background())
	n.must(err)
	want, _ := Plan(s, n.hop.opt, have.Host)
	if have.State.Equal(want) {
		return ""
	}
	return cmp.Diff(want.Text(), have.State.Text())
}

func TestWhatIsReadAfterAnApplyIsWhatWasWantedAndASecondApplyChangesNothing(t *testing.T) {
	n := newFakeNode(t, Options{})
	s := clusterOf("a 10.0.0.1 10.244.1.0/24,fd44:1::/64", "b 10.0.0.2 10.244.2.0/24,fd44:2::/64", "c 10.7.0.3 10.244.3.0/24,fd44:3::/64")
	if _, err := n.apply(s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	if diff := n.matches(s); diff != "" {
		t.Fatalf("want -, read +\n%s", diff)
	}
	r, err := n.hop.Apply(context.Background(), s, model.Everything())
	if err != nil || r.Changed != 0 {
		t.Errorf("the second Apply changed %d objects, %v", r.Changed, err)
	}
	if n.sysctl.Values["net/ipv4/ip_forward"] != "1" || n.sysctl.Values["net/ipv6/conf/all/forwarding"] != "1" {
		t.Errorf("forwarding %v", n.sysctl.Values)
	}
	n.must(n.hop.Remove(context.Background()))
	have, err := n.hop.read(context.Background())
	n.must(err)
	if text := have.State.Text(); text != "" {
		t.Errorf("left:\n%s", text)
	}
	if len(n.links.Links) != 2 || len(n.routes.Table) != 3 || len(n.rules.Tables()) != 0 {
		t.Errorf("left: %v %v %v", n.links.Links, n.routes.Table, n.rules.Tables())
	}
}

// world is a random set of nodes; "a" is always there.
func world(r *rand.Rand) *model.Snapshot {
	var lines []string
	for i, name := range []string{"a", "b", "c", "d", "e", "f"} {
		if name != "a" && r.IntN(3) == 0 {
			continue
		}
		network := []string{"10.0.0", "10.7.0"}[r.IntN(2)]
		addr := fmt.Sprintf("%s.%d", network, i+1)
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

func TestAnySequenceOfNodeSetsWithFailingWritesEndsWhereOneApplyDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	failed := 0
	for round := range 60 {
		n := newFakeNode(t, Options{Overlay: []Overlay{OverlayAuto, OverlayAlways, OverlayNever}[round%3]})
		n.failing(func() bool { return r.IntN(10) == 0 })
		var s *model.Snapshot
		for range 5 {
			s = world(r)
			if _, err := n.apply(s, model.Everything()); err != nil {
				failed++
			}
		}
		for try := 0; ; try++ {
			if _, err := n.apply(s, model.Everything()); err == nil {
				break
			} else if try > 100 {
				t.Fatalf("round %d: does not converge: %v", round, err)
			}
		}
		if diff := n.matches(s); diff != "" {
			t.Fatalf("round %d: want -, read +\n%s", round, diff)
		}
		if foreign := len(n.routes.Table) - countOurs(n.routes.Table); foreign != 3 {
			t.Fatalf("round %d: %d routes of others are left", round, foreign)
		}
	}
	if failed < 60 {
		t.Errorf("only %d applies failed: the test tests little", failed)
	}
}

func countOurs(table []route.Route) int {
	n := 0
	for _, r := range table {
		if r.Proto == RouteProtocol {
			n++
		}
	}
	return n
}

func TestADriftOfAnyKindIsMended(t *testing.T) {
	s := clusterOf("a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24", "c 10.7.0.3 10.244.3.0/24")
	ours := func(n *fakeNode) route.Route {
		i := slices.IndexFunc(n.routes.Table, func(r route.Route) bool { return r.Proto == RouteProtocol })
		return n.routes.Table[i]
	}
	drifts := map[string]func(n *fakeNode){
		"a route deleted": func(n *fakeNode) { n.must(n.routes.Delete(ours(n))) },
		"a route too many": func(n *fakeNode) {
			n.must(n.routes.Put(route.Route{Dst: prefixes("10.250.0.0/24")[0], Device: "eth0", Proto: RouteProtocol}))
		},
		"another gateway": func(n *fakeNode) {
			n.must(n.routes.Put(route.Route{Dst: prefixes("10.244.2.0/24")[0], Via: netip.MustParseAddr("10.0.0.99"), Device: "eth0", Proto: RouteProtocol}))
		},
		"the tunnel gone": func(n *fakeNode) { n.must(n.links.Delete(TunnelDevice)) },
		"checksum offload": func(n *fakeNode) {
			l := n.links.Links[TunnelDevice]
			v := *l.VXLAN
			v.TxChecksum = true
			l.VXLAN = &v
			n.links.Links[TunnelDevice] = l
		},
		"another VNI": func(n *fakeNode) {
			l := n.links.Links[TunnelDevice]
			v := *l.VXLAN
			v.VNI = 1
			l.VXLAN = &v
			n.links.Links[TunnelDevice] = l
		},
		"the MTU":           func(n *fakeNode) { l := n.links.Links[TunnelDevice]; l.MTU = 1500; n.links.Links[TunnelDevice] = l },
		"entries gone":      func(n *fakeNode) { n.routes.Entries = nil },
		"the table gone":    func(n *fakeNode) { n.must(n.rules.Apply(context.Background(), nft.Diff(n.rules.Tables()[0], nil))) },
		"the file gone":     func(n *fakeNode) { n.must(os.Remove(n.hop.opt.ConfigPath)) },
		"the file spoilt":   func(n *fakeNode) { n.must(os.WriteFile(n.hop.opt.ConfigPath, []byte("{"), 0o644)) },
		"forwarding is off": func(n *fakeNode) { n.sysctl.Values["net/ipv4/ip_forward"] = "0" },
	}
	for name, drift := range drifts {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(t, Options{})
			for range 2 {
				if _, err := n.apply(s, model.Everything()); err != nil {
					t.Fatal(err)
				}
				if diff := n.matches(s); diff != "" || n.sysctl.Values["net/ipv4/ip_forward"] != "1" {
					t.Fatalf("forwarding %s; want -, read +\n%s", n.sysctl.Values["net/ipv4/ip_forward"], diff)
				}
				drift(n)
			}
		})
	}
}

func TestNothingIsTouchedWhileTheNodeIsNotKnown(t *testing.T) {
	n := newFakeNode(t, Options{})
	s := clusterOf("a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24")
	if _, err := n.apply(s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	for _, other := range []*model.Snapshot{clusterOf(), clusterOf("b 10.0.0.2 10.244.2.0/24"), clusterOf("a 10.0.0.1")} {
		findings, err := n.apply(other, model.Everything())
		if err != nil || len(findings) != 1 || findings[0].Code != flow.NoPodCIDR {
			t.Errorf("findings %v, %v", findings, err)
		}
		if diff := n.matches(s); diff != "" {
			t.Fatalf("want -, read +\n%s", diff)
		}
	}
}

func TestAChangeOfOtherObjectsTouchesNothing(t *testing.T) {
	n := newFakeNode(t, Options{})
	n.failing(func() bool { return true })
	if _, err := n.apply(clusterOf("a 10.0.0.1 10.244.1.0/24"), model.Change{Services: []model.Name{model.N("shop", "cart")}}); err != nil {
		t.Error(err)
	}
}

func TestForwardingThatCannotBeSwitchedOnIsAFinding(t *testing.T) {
	n := newFakeNode(t, Options{})
	n.sysctl.ReadOnly = true
	findings, err := n.apply(clusterOf("a 10.0.0.1 10.244.1.0/24"), model.Everything())
	if err != nil || len(findings) != 1 || findings[0].Code != flow.ForwardingOff || !strings.Contains(findings[0].Cause, "net/ipv4/ip_forward") {
		t.Errorf("findings %v, %v", findings, err)
	}
}

func TestRoutesToPodsThatSomebodyDeletedComeBack(t *testing.T) {
	n := newFakeNode(t, Options{})
	reserve := func(container, alias string, device bool) route.Route {
		veth := VethName(container, "eth0")
		r, err := n.hop.Store().Reserve(ipam.Reservation{Container: container, IfName: "eth0", Veth: veth}, prefixes("10.244.1.0/24"), nil)
		n.must(err)
		if device {
			n.links.Links[veth] = link.Link{Name: veth, Kind: link.KindVeth, Alias: alias, Up: true}
		}
		return route.Route{Dst: single(r.Addrs[0]), Device: veth, Proto: RouteProtocol}
	}
	complete, unfinished, gone := reserve("complete", "podway: shop/x eth0", true), reserve("unfinished", "", true), reserve("gone", "", false)
	s := clusterOf("a 10.0.0.1 10.244.1.0/24")
	if _, err := n.apply(s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(n.routes.Table, complete) || slices.Contains(n.routes.Table, unfinished) || slices.Contains(n.routes.Table, gone) {
		t.Errorf("routes %v", n.routes.Table)
	}
	n.must(n.hop.Remove(context.Background()))
	if !slices.Contains(n.routes.Table, complete) {
		t.Error("Remove cut a running Pod off")
	}
}

func TestARouteThatAnotherProgramMakesMeanwhileIsAFindingNotAnError(t *testing.T) {
	n := newFakeNode(t, Options{})
	n.routes.Fail = func(op string) error {
		if strings.Contains(op, "put 10.244.2.0/24") {
			return fmt.Errorf("route: %w", route.ErrTaken)
		}
		return nil
	}
	findings, err := n.apply(clusterOf("a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24"), model.Everything())
	if err != nil || len(findings) != 1 || findings[0].Code != flow.RouteTaken {
		t.Errorf("findings %v, %v", findings, err)
	}
}

func TestTheConfigurationAppearsWholeAndOnlyAfterTheRest(t *testing.T) {
	n := newFakeNode(t, Options{})
	s := clusterOf("a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24")
	if _, err := ReadNodeConfig(n.hop.opt.ConfigPath); !errors.Is(err, ErrNoConfig) {
		t.Fatalf("got %v", err)
	}
	n.rules.Fail = func([]nft.Op) error {
		if _, err := os.Stat(n.hop.opt.ConfigPath); err == nil {
			t.Error("the plugin may begin before masquerading is there")
		}
		return nil
	}
	if _, err := n.apply(s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	c, err := ReadNodeConfig(n.hop.opt.ConfigPath)
	if err != nil || c.MTU != 1500 || c.Gateways[0].String() != "10.244.1.1" {
		t.Errorf("%+v, %v", c, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(n.hop.opt.ConfigPath), ".*")); len(left) != 0 {
		t.Errorf("left %v", left)
	}
}
