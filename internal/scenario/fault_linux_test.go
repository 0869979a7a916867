package scenario

import (
	"context"
	"net"
	"os"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/nettest"
)

const farCart = `A client on node-a, a Service whose Pod is on node-b.
-- cluster.yaml --
apiVersion: v1
kind: Pod
metadata: {name: web-0}
---
apiVersion: v1
kind: Pod
metadata: {name: cart-1, labels: {app: cart}}
spec: {nodeName: node-b}
---
apiVersion: v1
kind: Service
metadata: {name: cart}
spec: {clusterIP: 10.96.0.7, selector: {app: cart}, ports: [{port: 80, targetPort: 8080}]}
-- expect --
trace pod web-0 -> tcp 10.96.0.7:80 => ok
pod web-0 -> tcp 10.96.0.7:80 => pod cart-1
`

// Each fault is made by hand in a node's kernel, behind the hops' backs.
func TestTraceNamesWhatSomebodyBrokeOnANode(t *testing.T) {
	nettest.Need(t)
	for _, c := range []struct {
		name string
		node string
		make func(t *testing.T, n *kernelNode)
		want Outcome
	}{
		{"the proxy's rules are deleted", "node-a", deleteRules, Outcome{Result: "broken", Code: flow.RulesDiffer, Hop: "proxy"}},
		{"the route to the other node's Pods is deleted", "node-a", deleteRoute, Outcome{Result: "broken", Code: flow.NoRouteToPod, Hop: "podnet"}},
		{"the Pod's device is deleted", "node-b", deleteVeths, Outcome{Result: "broken", Code: flow.NoVethOfPod, Hop: "podnet"}},
		{"forwarding is switched off", "node-b", stopForwarding, Outcome{Result: "broken", Code: flow.ForwardingOff, Hop: "podnet"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w, f := kernelWorldOf(t, farCart)
			c.make(t, w.nodes[c.node])
			step := f.Steps[0]
			if got := w.Ask(t.Context(), step.State, step.Expect[0].Ask, c.want); !c.want.Matches(got) {
				t.Errorf("trace says %s, want %s", got, c.want)
			}
			if got := w.Ask(t.Context(), step.State, step.Expect[1].Ask, Outcome{Result: dropped}); got.Result == reached {
				t.Errorf("the Pod was reached all the same: %s", got)
			}
		})
	}
}

func TestPacketsThatArriveThoughTraceIsToldOtherwiseFail(t *testing.T) {
	nettest.Need(t)
	w, f := kernelWorldOf(t, farCart)
	n := w.nodes["node-a"]
	deleteRoute(t, n)
	// Another program's default route towards node-b: packets arrive, by no way of the pod network's.
	addRoute(t, n, netlink.Route{Dst: &net.IPNet{IP: net.IPv4(10, 244, 0, 0), Mask: net.CIDRMask(16, 32)}, Gw: net.IPv4(10, 90, 0, 12)})
	e := f.Steps[0].Expect[1]
	if got := w.Ask(t.Context(), f.Steps[0].State, e.Ask, e.Want); got.Result != "error" {
		t.Errorf("got %s, want an error that names the hop podnet", got)
	}
}

func kernelWorldOf(t *testing.T, text string) (*kernelWorld, *File) {
	t.Helper()
	f, err := Parse("fault.txtar", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	w, err := newKernelWorld(KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := w.Step(t.Context(), f, 0); err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Steps[0].Expect {
		if got := w.Ask(t.Context(), f.Steps[0].State, e.Ask, e.Want); !e.Want.Matches(got) {
			t.Fatalf("before the fault: %s: got %s", e.Text, got)
		}
	}
	return w, f
}

func deleteRules(t *testing.T, n *kernelNode) {
	t.Helper()
	k, err := nft.Open(n.host.NS())
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	have, err := k.Read(context.Background(), nft.IPv4, "podway-proxy")
	if err != nil || have == nil {
		t.Fatalf("table podway-proxy of %s: %v, %v", n.name, have, err)
	}
	if err := k.Apply(context.Background(), nft.Diff(have, nil)); err != nil {
		t.Fatal(err)
	}
}

func deleteRoute(t *testing.T, n *kernelNode) {
	t.Helper()
	dst := &net.IPNet{IP: net.IPv4(10, 244, 2, 0).To4(), Mask: net.CIDRMask(24, 32)}
	if err := n.host.Netlink().RouteDel(&netlink.Route{Dst: dst, Gw: net.IPv4(10, 90, 0, 12)}); err != nil {
		t.Fatal(err)
	}
}

func addRoute(t *testing.T, n *kernelNode, r netlink.Route) {
	t.Helper()
	if err := n.host.Netlink().RouteAdd(&r); err != nil {
		t.Fatal(err)
	}
}

func deleteVeths(t *testing.T, n *kernelNode) {
	t.Helper()
	links, err := n.host.Netlink().LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		if l.Type() == "veth" && l.Attrs().Name != "eth0" {
			if err := n.host.Netlink().LinkDel(l); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func stopForwarding(t *testing.T, n *kernelNode) {
	t.Helper()
	err := n.host.Do(func() error { return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("0"), 0) })
	if err != nil {
		t.Fatal(err)
	}
}
