package podnet

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet/hostport"
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
	pod    route.Route // of addPod
}

// addPod makes what the plugin makes for a Pod.
func (n *fakeNode) addPod() {
	veth := VethName("here", "eth0")
	port := ipam.Port{Proto: "tcp", HostPort: 80, Port: 8080}
	r, err := n.hop.Store().Reserve(ipam.Reservation{Container: "here", IfName: "eth0", Veth: veth, Ports: []ipam.Port{port}}, prefixes("10.244.1.0/24"), nil)
	n.must(err)
	n.links.Links[veth] = link.Link{Name: veth, Kind: link.KindVeth, Alias: "podway: shop/here eth0", Up: true}
	n.pod = route.Route{Dst: single(r.Addrs[0]), Device: veth, Proto: RouteProtocol}
	n.must(n.routes.Put(n.pod))
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

// failing makes writes fail when refuse says so.
func (n *fakeNode) failing(refuse func() error) {
	f := func(op string) error {
		if err := refuse(); err != nil {
			return fmt.Errorf("%s: %w", op, err)
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
		"the MTU":            func(n *fakeNode) { l := n.links.Links[TunnelDevice]; l.MTU = 1500; n.links.Links[TunnelDevice] = l },
		"entries gone":       func(n *fakeNode) { n.routes.Entries = nil },
		"the file gone":      func(n *fakeNode) { n.must(os.Remove(n.hop.opt.ConfigPath)) },
		"the file spoilt":    func(n *fakeNode) { n.must(os.WriteFile(n.hop.opt.ConfigPath, []byte("{"), 0o644)) },
		"a Pod's route gone": func(n *fakeNode) { n.must(n.routes.Delete(n.pod)) },
		"the table gone": func(n *fakeNode) {
			n.must(n.rules.Apply(context.Background(), []nft.Op{{Kind: nft.DelTable, Table: nft.NewTable(nft.IPv4, Table)}}))
		},
		"hostPorts gone": func(n *fakeNode) {
			n.must(n.rules.Apply(context.Background(), []nft.Op{{Kind: nft.DelTable, Table: nft.NewTable(nft.IPv4, hostport.Table)}}))
		},
		"another MTU below": func(n *fakeNode) { l := n.links.Links["eth0"]; l.MTU -= 10; n.links.Links["eth0"] = l },
		"forwarding is off": func(n *fakeNode) { n.sysctl.Values["net/ipv4/ip_forward"] = "0" },
	}
	for name, drift := range drifts {
		t.Run(name, func(t *testing.T) {
			n := newFakeNode(t, Options{})
			n.addPod()
			for range 2 {
				if _, err := n.apply(s, model.Everything()); err != nil {
					t.Fatal(err)
				}
				if drift, err := n.hop.Check(context.Background()); err != nil || drift != "" {
					t.Errorf("Check after Apply: %q, %v", drift, err)
				}
				if diff := n.matches(s); diff != "" || n.sysctl.Values["net/ipv4/ip_forward"] != "1" {
					t.Fatalf("forwarding %s; want -, read +\n%s", n.sysctl.Values["net/ipv4/ip_forward"], diff)
				}
				drift(n)
				if drift, err := n.hop.Check(context.Background()); err != nil || drift == "" {
					t.Errorf("Check finds nothing, %v", err)
				}
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
	n.failing(func() error { return errors.New("nothing may be written") })
	if _, err := n.apply(clusterOf("a 10.0.0.1 10.244.1.0/24"), model.Change{Services: []model.Name{model.N("shop", "cart")}}); err != nil {
		t.Error(err)
	}
}

func TestAFindingStandsUntilItIsLookedAtAnew(t *testing.T) {
	n := newFakeNode(t, Options{})
	n.sysctl.ReadOnly = true
	s := clusterOf("a 10.0.0.1 10.244.1.0/24")
	before, err := n.apply(s, model.Everything())
	n.must(err)
	after, err := n.apply(s, model.Change{Services: []model.Name{model.N("shop", "cart")}})
	if diff := cmp.Diff(before, after); err != nil || len(before) == 0 || diff != "" {
		t.Errorf("a change of a Service changes the findings: %v\n%s", err, diff)
	}
	n.sysctl.ReadOnly = false
	if gone, err := n.apply(s, model.Everything()); err != nil || len(gone) != 0 {
		t.Errorf("findings %v, %v", gone, err)
	}
}

func TestAnEntryThatARouteUsesGoesAfterTheRoute(t *testing.T) {
	n := newFakeNode(t, Options{Overlay: OverlayAlways})
	s := clusterOf("a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24", "c 10.0.0.3 10.244.3.0/24")
	_, err := n.apply(s, model.Everything())
	n.must(err)
	var ops []string
	n.routes.Fail = func(op string) error {
		ops = append(ops, op)
		return nil
	}
	_, err = n.apply(clusterOf("a 10.0.0.1 10.244.1.0/24", "b 10.0.0.2 10.244.2.0/24"), model.Everything())
	n.must(err)
	route := slices.IndexFunc(ops, func(op string) bool { return strings.HasPrefix(op, "route delete 10.244.3.0/24") })
	entry := slices.IndexFunc(ops, func(op string) bool { return strings.HasPrefix(op, "route delete neigh") })
	if route < 0 || entry < route {
		t.Errorf("want the route to go before its entry, got\n%s", strings.Join(ops, "\n"))
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

func TestTheFindingOfForwardingGoesWhenSomebodySwitchesItOn(t *testing.T) {
	n := newFakeNode(t, Options{})
	n.sysctl.ReadOnly = true
	s := clusterOf("a 10.0.0.1 10.244.1.0/24")
	_, err := n.apply(s, model.Everything())
	n.must(err)
	if drift, err := n.hop.Check(t.Context()); err != nil || drift != "" {
		t.Errorf("while it cannot be mended: drift %q, %v", drift, err)
	}
	n.sysctl.ReadOnly = false
	n.must(n.sysctl.Set("net/ipv4/ip_forward", "1"))
	n.sysctl.ReadOnly = true
	if drift, err := n.hop.Check(t.Context()); err != nil || drift == "" {
		t.Fatalf("after it was switched on: drift %q, %v; want one, so that all is applied anew", drift, err)
	}
	if findings, err := n.apply(s, model.Everything()); err != nil || len(findings) != 0 {
		t.Errorf("findings %v, %v", findings, err)
	}
	if drift, err := n.hop.Check(t.Context()); err != nil || drift != "" {
		t.Errorf("afterwards: drift %q, %v", drift, err)
	}
}

func TestANodeThatHasItsDefaultRouteFromAnAdvertisementKeepsIt(t *testing.T) {
	n := newFakeNode(t, Options{})
	n.routes.Table = append(n.routes.Table, route.Route{Dst: prefixes("::/0")[0], Via: netip.MustParseAddr("fe80::1"), Device: "eth1", Proto: protocolRA, Metric: 100})
	for _, d := range []string{"eth0", "eth1"} {
		n.sysctl.Values["net/ipv6/conf/"+d+"/accept_ra"] = "1"
	}
	if _, err := n.apply(clusterOf("a 10.0.0.1 10.244.1.0/24"), model.Everything()); err != nil {
		t.Fatal(err)
	}
	if n.sysctl.Values["net/ipv6/conf/all/forwarding"] != "0" {
		t.Error("IPv6 is forwarded though no Pod has it")
	}
	if _, err := n.apply(clusterOf("a 10.0.0.1 10.244.1.0/24,fd44:1::/64"), model.Everything()); err != nil {
		t.Fatal(err)
	}
	got := n.sysctl.Values
	if got["net/ipv6/conf/all/forwarding"] != "1" || got["net/ipv6/conf/eth1/accept_ra"] != "2" || got["net/ipv6/conf/eth0/accept_ra"] != "1" {
		t.Errorf("settings %v", got)
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
