package podnet_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/podnettest"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

func TestMain(m *testing.M) { podnettest.Main(m) }

// lab is three nodes and a world outside. node-1 and node-2 are on one network, node-3 is on another behind a router,
// which knows nothing of Pods and is the outside too.
type lab struct {
	t        *testing.T
	snapshot *model.Snapshot
	nodes    map[string]*labNode
}

type labNode struct {
	*podnettest.Host
	hop     *podnet.Hop
	runtime *podnettest.Runtime
}

var labNodes = []struct {
	name                 string
	segment              int
	v4, v6, cidr4, cidr6 string
}{
	{"node-1", 0, "10.90.0.11", "fd00:90::11", "10.244.1.0/24", "fd44:1::/64"},
	{"node-2", 0, "10.90.0.12", "fd00:90::12", "10.244.2.0/24", "fd44:2::/64"},
	{"node-3", 1, "10.91.0.13", "fd00:91::13", "10.244.3.0/24", "fd44:3::/64"},
}

const (
	outside4 = "203.0.113.9"
	outside6 = "fd00:203::9"
)

// newLab wires the machines. Families is "4", "6" or "46": of nodes and Pods.
func newLab(t *testing.T, families string, o podnet.Options) *lab {
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	l := &lab{t: t, nodes: map[string]*labNode{}}
	if _, err := w.AddSegment(); err != nil {
		t.Fatal(err)
	}
	out := podnettest.Open(t, "outside", w.Outside().NS())
	out.Serve(outside4 + ":8080")
	out.Serve("[::]:8080")
	b := model.NewBuilder(nil)
	for _, c := range labNodes {
		h, err := w.AddNode(c.name, c.segment)
		if err != nil {
			t.Fatal(err)
		}
		n := &labNode{Host: podnettest.Open(t, c.name, h.NS())}
		n.Forward()
		n.runtime = podnettest.NewRuntime(t, n.Host)
		n.Serve(":9090")
		b.Put(l.node(families, c.name, c.v4, c.v6, c.cidr4, c.cidr6))
		o.Node, o.ConfigPath, o.StoreDir = c.name, n.runtime.ConfigPath(), n.runtime.StoreDir()
		n.hop, err = podnet.New(n.NS, o)
		n.Must(err)
		t.Cleanup(n.hop.Close)
		l.nodes[c.name] = n
	}
	if err := w.Settle(context.Background()); err != nil {
		t.Fatal(err)
	}
	l.snapshot = b.Snapshot(time.Unix(0, 0))
	l.apply()
	return l
}

func (l *lab) node(families, name, v4, v6, cidr4, cidr6 string) *model.Node {
	n := &model.Node{Name: name, Ready: true}
	if strings.Contains(families, "4") {
		n.Addrs, n.PodCIDRs = append(n.Addrs, netip.MustParseAddr(v4)), append(n.PodCIDRs, netip.MustParsePrefix(cidr4))
	}
	if strings.Contains(families, "6") {
		n.Addrs, n.PodCIDRs = append(n.Addrs, netip.MustParseAddr(v6)), append(n.PodCIDRs, netip.MustParsePrefix(cidr6))
	}
	return n
}

func (l *lab) apply() {
	l.t.Helper()
	for _, n := range l.nodes {
		r, err := n.hop.Apply(context.Background(), l.snapshot, model.Everything())
		n.Must(err)
		if len(r.Findings) != 0 {
			l.t.Fatalf("%s: %+v", n.Name, r.Findings)
		}
	}
}

func (l *lab) pod(node, name string) (*podnettest.Host, []netip.Addr) {
	l.t.Helper()
	pod, addrs := l.nodes[node].runtime.Pod(l.t, name)
	pod.Serve(":8080")
	return pod, addrs
}

// size is more than the window of a connection's first packets: a full-size segment that is lost shows.
const size = 200_000

func reaches(t *testing.T, what string, from *podnettest.Host, to netip.Addr, port uint16, saw string) {
	t.Helper()
	got, err := from.Call(netip.AddrPortFrom(to, port).String(), size)
	if err != nil || got != saw {
		t.Errorf("%s to %s: the server saw %q, want %q: %v", what, to, got, saw, err)
	}
}

func TestPodsReachEachOtherOnEveryNodeInEveryFamilyWithoutTranslation(t *testing.T) {
	for _, families := range []string{"4", "6", "46"} {
		for _, overlay := range []podnet.Overlay{podnet.OverlayAuto, podnet.OverlayAlways} {
			t.Run(families+" "+string(overlay), func(t *testing.T) {
				l := newLab(t, families, podnet.Options{Overlay: overlay})
				pods, addrs := map[string]*podnettest.Host{}, map[string][]netip.Addr{}
				for _, p := range []struct{ node, pod string }{{"node-1", "a"}, {"node-1", "b"}, {"node-2", "c"}, {"node-3", "d"}} {
					pods[p.pod], addrs[p.pod] = l.pod(p.node, p.pod)
				}
				for i := range families {
					for _, way := range []string{"ab", "ac", "ad", "da", "cd", "aa", "dd"} {
						from, to := way[:1], way[1:]
						reaches(t, "Pod "+from, pods[from], addrs[to][i], 8080, addrs[from][i].String())
					}
				}
			})
		}
	}
}

func TestNodesReachPodsAndPodsReachNodes(t *testing.T) {
	l := newLab(t, "46", podnet.Options{})
	a, addrsA := l.pod("node-1", "a")
	_, addrsD := l.pod("node-3", "d")
	for i, gateway := range []string{"10.244.1.1", "fd44:1::1"} {
		node1 := netip.MustParseAddr([]string{"10.90.0.11", "fd00:90::11"}[i])
		node2 := netip.MustParseAddr([]string{"10.90.0.12", "fd00:90::12"}[i])
		node3 := netip.MustParseAddr([]string{"10.91.0.13", "fd00:91::13"}[i])
		reaches(t, "node to own Pod", l.nodes["node-1"].Host, addrsA[i], 8080, gateway)
		reaches(t, "node to Pod of its network", l.nodes["node-2"].Host, addrsA[i], 8080, node2.String())
		reaches(t, "node to Pod of another network", l.nodes["node-1"].Host, addrsD[i], 8080, gateway)
		reaches(t, "Pod to own node", a, node1, 9090, addrsA[i].String())
		reaches(t, "Pod to node of its network", a, node2, 9090, addrsA[i].String())
		reaches(t, "Pod to node of another network", a, node3, 9090, node1.String())
	}
}

func TestWhatLeavesTheClusterHasTheNodesAddress(t *testing.T) {
	l := newLab(t, "46", podnet.Options{})
	a, _ := l.pod("node-1", "a")
	reaches(t, "Pod", a, netip.MustParseAddr(outside4), 8080, "10.90.0.11")
	reaches(t, "Pod", a, netip.MustParseAddr(outside6), 8080, "fd00:90::11")
	saw, err := a.Datagram(outside4+":8080", 100)
	if err != nil || saw != "10.90.0.11" {
		t.Errorf("udp: saw %q, %v", saw, err)
	}
}

// A node's connection to a Service whose Pod is behind the tunnel is translated at both ends before it is wrapped. With
// checksums left to the hardware the kernel once sent wrong ones there, and the fifth repetition of the SYN got through
// after 63 seconds.
func TestAServiceBehindTheTunnelAnswersTheFirstPacketAndNoChecksumIsWrong(t *testing.T) {
	l := newLab(t, "46", podnet.Options{})
	a, _ := l.pod("node-1", "a")
	_, addrsD := l.pod("node-3", "d")
	n := l.nodes["node-1"]
	for i, service := range []string{"10.96.0.7", "fd96::7"} {
		vip := netip.MustParseAddr(service)
		n.Translate(netip.AddrPortFrom(vip, 80), netip.AddrPortFrom(addrsD[i], 8080))
		gateway := []string{"10.244.1.1", "fd44:1::1"}[i]
		reaches(t, "node to Service", n.Host, vip, 80, gateway)
		reaches(t, "Pod to Service", a, vip, 80, gateway)
	}
	for _, n := range l.nodes {
		for _, counter := range []string{"Udp: InCsumErrors", "Tcp: InCsumErrors", "Udp6InCsumErrors"} {
			if v := n.Counter(counter); v != 0 {
				t.Errorf("%s: %s is %d", n.Name, counter, v)
			}
		}
		tunnel, _, err := n.Links.Get(podnet.TunnelDevice)
		if err != nil || tunnel.VXLAN.TxChecksum {
			t.Errorf("%s: %v, %v", n.Name, tunnel, err)
		}
	}
}

func TestAFullSizePacketPassesUnfragmentedOnEveryWay(t *testing.T) {
	l := newLab(t, "46", podnet.Options{})
	a, _ := l.pod("node-1", "a")
	_, addrsB := l.pod("node-1", "b")
	_, addrsC := l.pod("node-2", "c")
	_, addrsD := l.pod("node-3", "d")
	const mtu = 1450 // 1500 less VXLAN over IPv4
	for i, header := range []int{28, 48} {
		for way, addrs := range map[string][]netip.Addr{"same node": addrsB, "same network": addrsC, "tunnel": addrsD} {
			to := netip.AddrPortFrom(addrs[i], 8080).String()
			if _, err := a.Datagram(to, mtu-header); err != nil {
				t.Errorf("%s, %s: %v", way, to, err)
			}
			if _, err := a.Datagram(to, mtu-header+1); err == nil {
				t.Errorf("%s, %s: a larger one passed", way, to)
			}
		}
	}
}

func TestTheTunnelsMTULeavesRoomForIPv6(t *testing.T) {
	l := newLab(t, "6", podnet.Options{})
	a, _ := l.pod("node-1", "a")
	_, addrsD := l.pod("node-3", "d")
	if _, err := a.Datagram(netip.AddrPortFrom(addrsD[0], 8080).String(), 1430-48); err != nil {
		t.Error(err)
	}
	if c, err := podnet.ReadNodeConfig(l.nodes["node-1"].runtime.ConfigPath()); err != nil || c.MTU != 1430 {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestAnAddressThatNoPodHasIsAnsweredFor(t *testing.T) {
	l := newLab(t, "46", podnet.Options{})
	a, _ := l.pod("node-1", "a")
	for _, to := range []string{"10.244.1.77:80", "10.244.2.77:80", "10.244.3.77:80", "[fd44:1::77]:80", "[fd44:2::77]:80", "[fd44:3::77]:80"} {
		// The kernel may miss an answer that comes while it still sends, and hears the next one, a second later.
		_, err := a.CallWithin(2500*time.Millisecond, to, 1)
		if !errors.Is(err, syscall.EHOSTUNREACH) && !errors.Is(err, syscall.ENETUNREACH) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestDeclaredAndProgrammedAgreeOnEveryNodeAboutEveryDestination(t *testing.T) {
	l := newLab(t, "46", podnet.Options{})
	addrs := map[string][]netip.Addr{}
	b := model.NewBuilder(l.snapshot)
	for _, p := range []struct{ node, pod string }{{"node-1", "a"}, {"node-2", "c"}, {"node-3", "d"}} {
		_, addrs[p.pod] = l.pod(p.node, p.pod)
		b.Put(&model.Pod{Name: model.N("shop", p.pod), Node: p.node, Addrs: addrs[p.pod], Phase: "Running", Ready: true})
	}
	l.snapshot = b.Snapshot(time.Unix(1, 0))
	l.apply()
	dsts := []string{outside4, outside6, "10.90.0.11", "fd00:90::12", "10.91.0.13", "10.244.1.1", "fd44:3::1", "10.244.1.99", "10.244.2.99", "fd44:3::99"}
	for _, p := range addrs {
		dsts = append(dsts, p[0].String(), p[1].String())
	}
	n := 0
	for node, own := range map[string]string{"node-1": "a", "node-2": "c", "node-3": "d"} {
		for _, dst := range dsts {
			d := netip.MustParseAddr(dst)
			src := addrs[own][0]
			if d.Is6() {
				src = addrs[own][1]
			}
			for _, from := range []flow.Kind{flow.FromPod, flow.FromNode, flow.FromOutside} {
				f := flow.Flow{From: from, Sender: "shop/" + own, Node: node, Proto: flow.TCP, Dst: netip.AddrPortFrom(d, 80)}
				switch from {
				case flow.FromPod:
					f.Src = netip.AddrPortFrom(src, 0)
				case flow.FromNode:
					f.Sender = node
				}
				declared := l.nodes[node].hop.Declared(l.snapshot, f)
				programmed, err := l.nodes[node].hop.Programmed(context.Background(), f)
				if err != nil || !declared.Same(programmed) {
					t.Errorf("%s: declared %s (%s), programmed %s (%s), %v", f, declared, declared.Why, programmed, programmed.Why, err)
				}
				n++
			}
		}
	}
	if n != 3*3*16 {
		t.Errorf("%d flows", n)
	}
}

func TestProgrammedSaysWhatIsBroken(t *testing.T) {
	l := newLab(t, "4", podnet.Options{})
	_, addrsA := l.pod("node-1", "a")
	_, addrsD := l.pod("node-3", "d")
	n := l.nodes["node-1"]
	ask := func(dst netip.Addr) flow.Verdict {
		t.Helper()
		v, err := n.hop.Programmed(context.Background(), flow.Flow{
			From: flow.FromPod, Sender: "shop/b", Node: "node-1", Proto: flow.TCP,
			Src: netip.AddrPortFrom(netip.MustParseAddr("10.244.1.9"), 0), Dst: netip.AddrPortFrom(dst, 80),
		})
		n.Must(err)
		return v
	}
	want := func(what string, v flow.Verdict, code flow.Code) {
		t.Helper()
		if v.Good() && v.Action != flow.Pass || len(v.Findings) != 1 || v.Findings[0].Code != code {
			t.Errorf("%s: %s %+v", what, v, v.Findings)
		}
		l.apply()
		if v := ask(addrsD[0]); v.Action != flow.Forward || v.Node != "node-3" || len(v.Findings) != 0 {
			t.Errorf("%s: after the next Apply: %s %+v", what, v, v.Findings)
		}
	}
	n.Must(n.Links.Delete(podnet.TunnelDevice))
	want("no tunnel", ask(addrsD[0]), flow.NoRouteToPod)
	entries, err := n.Routes.Neighbours(podnet.TunnelDevice)
	n.Must(err)
	for _, e := range entries {
		n.Must(n.Routes.DeleteNeighbour(e))
		want(e.String(), ask(addrsD[0]), flow.NoRouteToPod)
	}
	n.Set("net/ipv4/ip_forward", "0")
	want("forwarding", ask(addrsD[0]), flow.ForwardingOff)
	n.Must(n.Links.Delete(podnet.VethName("a", "eth0")))
	want("device", ask(addrsA[0]), flow.NoVethOfPod)
}

func TestCheckNoticesWhatSomebodyElseChanges(t *testing.T) {
	l := newLab(t, "4", podnet.Options{})
	l.pod("node-1", "a")
	n := l.nodes["node-1"]
	check := func() string {
		t.Helper()
		drift, err := n.hop.Check(context.Background())
		n.Must(err)
		return drift
	}
	route := func(dst string) route.Route {
		all, err := n.Routes.Routes()
		n.Must(err)
		return all[slices.IndexFunc(all, func(r route.Route) bool { return r.Dst.String() == dst })]
	}
	entries, err := n.Routes.Neighbours(podnet.TunnelDevice)
	n.Must(err)
	for _, c := range []struct {
		what string
		do   func() error
	}{
		{"a route to another node", func() error { return n.Routes.Delete(route("10.244.2.0/24")) }},
		{"a route to a Pod", func() error { return n.Routes.Delete(route("10.244.1.2/32")) }},
		{"a forwarding entry", func() error { return n.Routes.DeleteNeighbour(entries[1]) }},
		{"the tunnel", func() error { return n.Links.Delete(podnet.TunnelDevice) }},
		{"the masquerading", func() error { return n.DropTable(podnet.Table) }},
		{"the file", func() error { return os.Remove(n.runtime.ConfigPath()) }},
		{"forwarding", func() error { return n.Sysctl.Set("net/ipv4/ip_forward", "0") }},
	} {
		for range 3 {
			if drift := check(); drift != "" {
				t.Errorf("%s: before: %s", c.what, drift)
			}
		}
		n.Must(c.do())
		for range 2 {
			if check() == "" {
				t.Errorf("%s: not noticed", c.what)
			}
		}
		l.apply()
	}
}

func TestRemoveLeavesNothingButThePods(t *testing.T) {
	l := newLab(t, "46", podnet.Options{})
	a, addrsA := l.pod("node-1", "a")
	b, _ := l.pod("node-1", "b")
	n := l.nodes["node-1"]
	fresh, err := podnet.New(n.NS, podnet.Options{Node: "node-1", ConfigPath: n.runtime.ConfigPath(), StoreDir: n.runtime.StoreDir()})
	n.Must(err)
	defer fresh.Close()
	for range 2 {
		n.Must(fresh.Remove(context.Background()))
	}
	routes, err := n.Host.Routes.Routes()
	n.Must(err)
	for _, r := range routes {
		if r.Proto == podnet.RouteProtocol && !strings.HasPrefix(r.Device, podnet.VethPrefix) {
			t.Errorf("left: %s", r)
		}
	}
	if _, ok, _ := n.Links.Get(podnet.TunnelDevice); ok {
		t.Error("the tunnel is left")
	}
	if _, err := podnet.ReadNodeConfig(n.runtime.ConfigPath()); err == nil {
		t.Error("the plugin still works")
	}
	reaches(t, "running Pods still talk: b", b, addrsA[0], 8080, "10.244.1.3")
	n.Must(n.runtime.Del(a))
	n.Must(n.runtime.Del(b))
	links, err := n.Links.List()
	n.Must(err)
	if got := fmt.Sprint(len(links)); got != "2" {
		t.Errorf("devices %v", links)
	}
}

func TestAForeignFirewallThatDropsForwardedPacketsIsAFinding(t *testing.T) {
	l := newLab(t, "4", podnet.Options{})
	n := l.nodes["node-1"]
	n.DropForwarded()
	r, err := n.hop.Apply(context.Background(), l.snapshot, model.Everything())
	n.Must(err)
	if len(r.Findings) != 1 || r.Findings[0].Code != flow.ForwardDropped || !strings.Contains(r.Findings[0].Cause, "chain FORWARD of table ip filter") {
		t.Errorf("%+v", r.Findings)
	}
}
