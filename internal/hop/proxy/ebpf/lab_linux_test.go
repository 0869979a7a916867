package ebpf

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// lab is a real network: node-a with the proxy under test, node-b without, Pods on both, and clients outside.
type lab struct {
	t           testing.TB
	w           *nettest.World
	a, b        *nettest.Host
	pods        map[string]*nettest.Host
	netns       string
	backend     *Backend
	proxy       *proxy.Proxy
	builder     *model.Builder
	have        *model.Snapshot
	connections *conntrack.Conn
}

var podAddrs = map[string][2]string{ // name -> IPv4, IPv6; the node follows from the first letter
	"a1": {"10.244.1.1", "fd00:10:1::1"}, "a2": {"10.244.1.2", "fd00:10:1::2"}, "a3": {"10.244.1.3", "fd00:10:1::3"},
	"b1": {"10.244.2.1", "fd00:10:2::1"},
}

var (
	vip4, vip6 = netip.MustParseAddrPort("10.96.0.7:80"), netip.MustParseAddrPort("[fd00:96::7]:80")
	vips       = []netip.AddrPort{vip4, vip6}
	client4    = netip.MustParseAddr("203.0.113.9")
)

const nodePort = 30080

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{t: t, w: newWorld(t), pods: map[string]*nettest.Host{}, netns: t.TempDir(), builder: model.NewBuilder(nil)}
	l.a, l.b = l.node("node-a", 1), l.node("node-b", 2)
	for name, addrs := range podAddrs {
		node := l.a
		if name[0] == 'b' {
			node = l.b
		}
		pod, err := l.w.AddPod(node, name, netip.MustParseAddr(addrs[0]), netip.MustParseAddr(addrs[1]))
		l.ok(err)
		_, err = pod.Serve(name, nettest.Port{Proto: "tcp", Number: 8080}, nettest.Port{Proto: "udp", Number: 8080})
		l.ok(err)
		l.pods[name] = pod
		l.ok(os.Symlink(pod.NS().Path(), filepath.Join(l.netns, name)))
	}
	for i, other := range []*nettest.Host{l.b, l.a} {
		here := []*nettest.Host{l.a, l.b}[i]
		l.ok(here.Route(netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", 2-i)), other.Addrs[0]))
		l.ok(here.Route(netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/64", 2-i)), other.Addrs[1]))
	}
	var err error
	l.connections, err = conntrack.Open(l.a.NS())
	l.ok(err)
	t.Cleanup(func() { l.connections.Close() })
	l.restart()
	l.ok(l.w.Settle(t.Context()))
	return l
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) node(name string, n int) *nettest.Host {
	h, err := l.w.AddNode(name, 0)
	l.ok(err)
	l.builder.Put(&model.Node{Name: name, Ready: true, Addrs: h.Addrs, PodCIDRs: []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n)), netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/64", n))}})
	return h
}

// restart starts the proxy as a new process that knows nothing.
func (l *lab) restart() {
	l.backend = In(l.a.NS(), Paths{Cgroup: l.a.Cgroup(), BPF: l.a.BPF(), Netns: l.netns})
	l.proxy = proxy.New(proxy.Options{Node: "node-a", Backend: l.backend, Connections: l.connections})
	l.have = nil
}

// apply changes the cluster and applies it.
func (l *lab) apply(objs ...any) {
	l.t.Helper()
	for _, o := range objs {
		l.builder.Put(o)
	}
	s := l.builder.Snapshot(time.Now())
	_, err := l.proxy.Apply(l.t.Context(), s, model.Diff(l.have, s))
	l.ok(err)
	l.have = s
}

// webService is shop/web, TCP and UDP port 80, with a NodePort.
func webService(edit ...func(*model.Service)) *model.Service {
	s := &model.Service{Name: model.N("shop", "web"), Type: model.NodePort, ClusterIPs: []netip.Addr{vip4.Addr(), vip6.Addr()},
		Ports: []model.ServicePort{{Name: "tcp", Protocol: model.TCP, Port: 80, NodePort: nodePort}, {Name: "udp", Protocol: model.UDP, Port: 80, NodePort: nodePort}}}
	for _, f := range edit {
		f(s)
	}
	return s
}

// slices46 are the slices of both families with the Pods as endpoints.
func slices46(pods ...string) []any {
	var out []any
	for i, typ := range []string{"IPv4", "IPv6"} {
		s := &model.EndpointSlice{Name: model.N("shop", "web-"+typ), Service: model.N("shop", "web"), AddressType: typ,
			Ports: []model.EndpointPort{{Name: "tcp", Protocol: model.TCP, Port: 8080}, {Name: "udp", Protocol: model.UDP, Port: 8080}}}
		for _, p := range pods {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Addr: netip.MustParseAddr(podAddrs[p][i]), Ready: true, Serving: true, Node: "node-" + p[:1]})
		}
		out = append(out, s)
	}
	return out
}

// withoutRules takes the packets' rules away, so that only sockets lead anywhere.
func (l *lab) withoutRules() {
	l.t.Helper()
	l.ok(l.backend.host.Packets.Remove(l.t.Context()))
}
