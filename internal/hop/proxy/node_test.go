package proxy

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/model"
)

func TestNodePortsAnswerAtTheAddressesThatTheSettingsSay(t *testing.T) {
	in := func(ps ...string) (out []netip.Prefix) {
		for _, p := range ps {
			out = append(out, netip.MustParsePrefix(p))
		}
		return out
	}
	host := func() []netip.Addr { return hoptest.HostAddrs }
	s := hoptest.NewCluster().Snapshot()
	named := Config{Node: hoptest.NodeA, Settings: Settings{NodeAddr: netip.MustParseAddr("192.168.9.9")}}.Decide(s)
	if got := fmt.Sprint(named.Node.Addrs, named.Node.Primary); got != "[192.168.9.9 fd00:1::1] [192.168.9.9 fd00:1::1]" || !named.Node.Has(netip.MustParseAddr("192.168.9.9")) {
		t.Errorf("an address of the operator's choice: %s", got)
	}
	for _, c := range []struct {
		name string
		set  NodePortAddresses
		host func() []netip.Addr
		want string
	}{
		{"the primary ones", NodePortAddresses{}, host, "[192.168.1.1 fd00:1::1]"},
		{"all", NodePortAddresses{All: true}, host, "[172.17.0.1 192.168.1.1 fd00:1::1 fd00:17::1]"},
		{"all that the Node object has", NodePortAddresses{All: true}, nil, "[192.168.1.1 fd00:1::1]"},
		{"a range, and the other family as it is", NodePortAddresses{In: in("172.16.0.0/12")}, host, "[172.17.0.1 fd00:1::1 fd00:17::1]"},
		{"ranges of both families", NodePortAddresses{In: in("192.168.0.0/16", "fd00:17::/64")}, host, "[192.168.1.1 fd00:17::1]"},
		{"a range that no address is in", NodePortAddresses{In: in("198.51.100.0/24", "2001:db8::/32")}, host, "[]"},
		{"a range and the primary ones", NodePortAddresses{In: in("172.16.0.0/12"), Primary: true}, host, "[172.17.0.1 192.168.1.1 fd00:1::1]"},
		{"loopback too", NodePortAddresses{Loopback: true}, host, "[127.0.0.1 192.168.1.1 ::1 fd00:1::1]"},
	} {
		p := Config{Node: hoptest.NodeA, Host: c.host, Settings: Settings{NodePorts: c.set}}.Decide(s)
		if got := fmt.Sprint(p.Node.Addrs); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestAnAddressThatTheHostGetsIsPlannedAtTheNextUpdate(t *testing.T) {
	addrs := hoptest.HostAddrs[:1]
	c := Config{Node: hoptest.NodeA, Host: func() []netip.Addr { return addrs }, Settings: Settings{NodePorts: NodePortAddresses{All: true}}}
	s := snapshot(t, "exposed")
	planner := c.Planner()
	before, _ := planner.Update(s, model.Everything())
	if planner.moved() {
		t.Error("moved, though the host has the same addresses")
	}
	addrs = hoptest.HostAddrs
	if !planner.moved() {
		t.Error("not moved, though the host has one address more")
	}
	after, n := planner.Update(s, model.Change{})
	if n != s.Services.Len() || before.SameNode(after) || planner.moved() {
		t.Errorf("%d Services planned anew, same node %t, moved %t", n, before.SameNode(after), planner.moved())
	}
}

func TestSettingsChangeWhereTrafficGoes(t *testing.T) {
	s := snapshot(t, "exposed")
	pod := from("pod 10.244.1.200", "10.96.0.7:80")
	byDevice := pod
	byDevice.Src, byDevice.SrcLocal = netip.MustParseAddrPort("172.30.0.5:0"), true
	for _, c := range []struct {
		name string
		set  Settings
		f    flow.Flow
		want string
	}{
		{"by default a Pod of the node keeps its address", Settings{}, pod, "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080"},
		{"masqueradeAll hides it", Settings{MasqueradeAll: true}, pod, "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080 masquerade"},
		{"a Pod of another node is local by the cluster's range", Settings{LocalPods: LocalPods{Mode: ByClusterCIDR, CIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}}},
			from("pod 10.244.2.200", "10.96.0.7:80"), "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080"},
		{"and not by its device", Settings{LocalPods: LocalPods{Mode: ByBridge, Interface: "cni0"}}, from("pod 10.244.2.200", "10.96.0.7:80"),
			"forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080 masquerade"},
		{"a Pod is known by its device whatever its address", Settings{LocalPods: LocalPods{Mode: ByInterfacePrefix, Interface: "veth"}}, byDevice,
			"forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080"},
		{"without externalIPs", Settings{NoExternalIPs: true}, from("outside 203.0.113.9", "198.51.101.7:80"), "pass"},
		{"a Service without the label is not of a proxy with a name", Settings{ProxyName: "mesh"}, pod, "pass"},
	} {
		p := New(Options{Node: hoptest.NodeA, Settings: c.set})
		if got := p.Declared(s, c.f).String(); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	other := snapshot(t, "another proxy's Service")
	if got := New(Options{Node: hoptest.NodeA, Settings: Settings{ProxyName: "mesh"}}).Declared(other, pod).String(); got != "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080" {
		t.Errorf("a Service with the label of the proxy's name: %s", got)
	}
}

func TestABalanceOfMaglevIsSaidByAnAnnotation(t *testing.T) {
	for _, c := range []struct {
		say  string
		want bool
	}{{"maglev", true}, {"random", false}, {"", false}} {
		svc := hoptest.Service("cart", 7, func(s *model.Service) { s.Annotations = map[string]string{"podway.io/balance": c.say} })
		p := Decide(hoptest.NewCluster().Put(svc, hoptest.Slice("cart", hoptest.Ready("10.244.1.5"))).Snapshot(), hoptest.NodeA)
		if got := p.Services.At(svc.Name).Ports[0].Maglev; got != c.want {
			t.Errorf("%q: maglev %t", c.say, got)
		}
	}
}

func TestTheRangesOfClusterIPsAreThoseOfTheClusterAndOfTheConfiguration(t *testing.T) {
	s := hoptest.NewCluster().Put(&model.ServiceCIDR{Name: "kubernetes", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}},
		&model.ServiceCIDR{Name: "more", CIDRs: []netip.Prefix{netip.MustParsePrefix("10.100.0.0/16")}}).Snapshot()
	p := Config{Node: hoptest.NodeA, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/20"), netip.MustParsePrefix("fd00:96::/112")}}.Decide(s)
	if got, want := fmt.Sprint(p.ServiceCIDRs), "[10.96.0.0/16 10.100.0.0/16 fd00:96::/112]"; got != want {
		t.Errorf("ranges %s, want %s", got, want)
	}
}
