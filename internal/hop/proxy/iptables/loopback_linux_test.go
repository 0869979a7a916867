package iptables

import (
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// loopbackLab is a node with the Service shop/web, whose node port is 30080, and a Pod behind it.
func loopbackLab(t *testing.T) (*nettest.Host, *model.Snapshot) {
	w, err := nettest.New()
	ok(t, err)
	t.Cleanup(func() { w.Close() })
	node, err := w.AddNode("node-a", 0)
	ok(t, err)
	addrs := []netip.Addr{netip.MustParseAddr("10.244.1.1"), netip.MustParseAddr("fd00:10:1::1")}
	pod, err := w.AddPod(node, "a1", addrs...)
	ok(t, err)
	_, err = pod.Serve("a1", nettest.Port{Proto: "tcp", Number: 8080})
	ok(t, err)
	b := model.NewBuilder(nil)
	b.Put(&model.Node{Name: "node-a", Ready: true, Addrs: node.Addrs, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParsePrefix("fd00:10:1::/64")}})
	b.Put(&model.Service{Name: model.N("shop", "web"), Type: model.NodePort, ClusterIPs: []netip.Addr{netip.MustParseAddr("10.96.0.7"), netip.MustParseAddr("fd00:96::7")},
		Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80, NodePort: 30080}}})
	for i, typ := range []string{"IPv4", "IPv6"} {
		b.Put(&model.EndpointSlice{Name: model.N("shop", "web-"+typ), Service: model.N("shop", "web"), AddressType: typ, Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}},
			Endpoints: []model.Endpoint{{Addr: addrs[i], Ready: true, Serving: true, Node: "node-a"}}})
	}
	return node, b.Snapshot(time.Now())
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// readOnly is a door to kernel settings through which nothing can be written, as in a container without privileges.
type readOnly struct{ sysctl.Door }

func (r readOnly) Set(key, value string) error {
	if old, err := r.Get(key); err == nil && old == value {
		return nil
	}
	return fmt.Errorf("%s: %w", key, sysctl.ErrReadOnly)
}

func TestNodePortsAtLoopbackNeedAnotherProcessWhereSettingsAreReadOnly(t *testing.T) {
	for _, v := range variants {
		needTools(t, v)
		node, s := loopbackLab(t)
		settings := sysctl.Open(node.NS())
		open := func() (kipt.Door, error) { return kipt.Open(node.NS(), v) }
		apply := func() []flow.Finding {
			t.Helper()
			p := proxy.New(proxy.Options{Node: "node-a", Settings: proxy.Settings{NodePorts: proxy.NodePortAddresses{All: true, Loopback: true}}, Backend: New(open, readOnly{settings})})
			r, err := p.Apply(t.Context(), s, model.Everything())
			ok(t, err)
			return r.Findings
		}
		try := func(dst string, want nettest.Result) {
			t.Helper()
			if r := node.Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: netip.MustParseAddrPort(dst), Timeout: time.Second}); r.Result != want {
				t.Errorf("%s: %s: got %s, want %s", v, dst, r.Result, want)
			}
		}
		vip := "10.96.0.7:80"
		if f := apply(); len(f) != 1 || f[0].Code != flow.LoopbackClosed {
			t.Errorf("%s: findings %v, want %s", v, f, flow.LoopbackClosed)
		}
		try(vip, nettest.Reached)
		for _, already := range []bool{true, false} { // beside the rules, and on a fresh node
			if !already {
				ok(t, New(open, settings).Remove(t.Context()))
			}
			ok(t, New(open, settings).OpenLoopback(t.Context(), "node-a"))
			if got, err := settings.Get(routeLocalnet); err != nil || got != "1" {
				t.Errorf("%s: %s is %q, %v", v, routeLocalnet, got, err)
			}
			if f := apply(); len(f) != 0 {
				t.Errorf("%s: findings %v", v, f)
			}
			try("127.0.0.1:30080", nettest.Reached)
			try(vip, nettest.Reached)
		}
	}
}

func TestNodePortsAnswerAtLoopbackWhenTheyShould(t *testing.T) {
	for _, v := range variants {
		needTools(t, v)
		node, s := loopbackLab(t)
		settings := sysctl.Open(node.NS())
		try := func(ports proxy.NodePortAddresses, want4, want6 nettest.Result, setting string) {
			t.Helper()
			p := proxy.New(proxy.Options{Node: "node-a", Settings: proxy.Settings{NodePorts: ports},
				Backend: New(func() (kipt.Door, error) { return kipt.Open(node.NS(), v) }, settings)})
			_, err := p.Apply(t.Context(), s, model.Everything())
			ok(t, err)
			for dst, want := range map[string]nettest.Result{"127.0.0.1:30080": want4, "[::1]:30080": want6} {
				r := node.Connect(t.Context(), nettest.Dial{Proto: "tcp", Dst: netip.MustParseAddrPort(dst), Timeout: 5 * time.Second})
				if r.Result != want || want == nettest.Reached && r.Saw.Addr() != node.Addrs[0] {
					t.Errorf("%s, %+v: %s: got %s by %q who saw %s (%v), want %s", v, ports, dst, r.Result, r.Who, r.Saw, r.Err, want)
				}
			}
			if got, err := settings.Get(routeLocalnet); err != nil || got != setting {
				t.Errorf("%s, %+v: %s is %q, %v; want %s", v, ports, routeLocalnet, got, err, setting)
			}
		}
		try(proxy.NodePortAddresses{}, nettest.Refused, nettest.Refused, "0")
		try(proxy.NodePortAddresses{All: true}, nettest.Refused, nettest.Refused, "0")
		try(proxy.NodePortAddresses{All: true, Loopback: true}, nettest.Reached, nettest.Refused, "1")
		try(proxy.NodePortAddresses{Loopback: true}, nettest.Reached, nettest.Refused, "1")
		try(proxy.NodePortAddresses{}, nettest.Refused, nettest.Refused, "0")
	}
}
