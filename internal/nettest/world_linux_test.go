package nettest

import (
	"context"
	"net/netip"
	"os"
	"testing"
	"time"
)

var (
	podA = netip.MustParseAddr("10.244.0.2")
	podB = netip.MustParseAddr("10.244.1.2")
	pod6 = netip.MustParseAddr("fd00:244:1::2")
)

// twoNodes is two nodes with one Pod each and the routes between them.
func twoNodes(t testing.TB) (w *World, nodes, pods [2]*Host) {
	t.Helper()
	w, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	must := func(h *Host, err error) *Host {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	nodes = [2]*Host{must(w.AddNode("node-a", 0)), must(w.AddNode("node-b", 0))}
	pods = [2]*Host{must(w.AddPod(nodes[0], "a", podA)), must(w.AddPod(nodes[1], "b", podB, pod6))}
	for i, p := range pods {
		for _, a := range p.Addrs {
			other, family := nodes[1-i], 0
			if a.Is6() {
				family = 1
			}
			if err := other.Route(netip.PrefixFrom(a, a.BitLen()), nodes[i].Addrs[family]); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := p.Serve("default/"+p.Name, Port{Proto: "tcp", Number: 8080}, Port{Proto: "udp", Number: 53}); err != nil {
			t.Fatal(err)
		}
	}
	return w, nodes, pods
}

func TestPodsNodesAndOutsideReachEachOther(t *testing.T) {
	Need(t)
	w, nodes, pods := twoNodes(t)
	via, err := w.Outside().Via(nodes[1].Addrs[0])
	if err != nil {
		t.Fatal(err)
	}
	client := netip.MustParseAddr("203.0.113.9")
	for _, c := range []struct {
		name string
		from *Host
		dial Dial
		want Reply
	}{
		{"pod to pod over two nodes by TCP", pods[0], Dial{Proto: "tcp", Dst: netip.AddrPortFrom(podB, 8080)}, Reply{Result: Reached, Who: "default/b", Saw: netip.AddrPortFrom(podA, 0)}},
		{"pod to pod over two nodes by UDP", pods[0], Dial{Proto: "udp", Dst: netip.AddrPortFrom(podB, 53)}, Reply{Result: Reached, Who: "default/b", Saw: netip.AddrPortFrom(podA, 0)}},
		{"node to pod by IPv6", nodes[0], Dial{Proto: "tcp", Dst: netip.AddrPortFrom(pod6, 8080)}, Reply{Result: Reached, Who: "default/b", Saw: netip.AddrPortFrom(nodes[0].Addrs[1], 0)}},
		{"outside client through a chosen node", w.Outside(), Dial{Proto: "tcp", Src: client, Mark: via, Dst: netip.AddrPortFrom(podB, 8080)}, Reply{Result: Reached, Who: "default/b", Saw: netip.AddrPortFrom(client, 0)}},
		{"a closed TCP port", pods[0], Dial{Proto: "tcp", Dst: netip.AddrPortFrom(podB, 81)}, Reply{Result: Refused}},
		{"a closed UDP port", pods[0], Dial{Proto: "udp", Dst: netip.AddrPortFrom(podB, 81)}, Reply{Result: Refused}},
		{"an address nobody has", pods[0], Dial{Proto: "tcp", Dst: netip.MustParseAddrPort("198.51.100.1:80"), Timeout: 100 * time.Millisecond}, Reply{Result: Dropped}},
		{"the outside host has no way to Pods by itself", w.Outside(), Dial{Proto: "tcp", Dst: netip.AddrPortFrom(podB, 8080), Timeout: 100 * time.Millisecond}, Reply{Result: Dropped}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := c.from.Connect(context.Background(), c.dial)
			if got.Result != c.want.Result || got.Who != c.want.Who || got.Saw.Addr() != c.want.Saw.Addr() {
				t.Errorf("got %s %q from %s (%v), want %s %q from %s", got.Result, got.Who, got.Saw, got.Err, c.want.Result, c.want.Who, c.want.Saw.Addr())
			}
		})
	}
}

func TestGetShowsStatusAndServer(t *testing.T) {
	Need(t)
	_, _, pods := twoNodes(t)
	got := pods[0].Get(context.Background(), Dial{Dst: netip.AddrPortFrom(podB, 8080)}, "http://shop.example/foo", nil)
	if got.Status != 200 || got.Who != "default/b" || got.Saw.Addr() != podA {
		t.Errorf("got status %d from %q which saw %s (%v)", got.Status, got.Who, got.Saw, got.Err)
	}
}

func TestASecondSegmentIsReachedThroughTheOutsideHost(t *testing.T) {
	Need(t)
	w, nodes, _ := twoNodes(t)
	seg, err := w.AddSegment()
	if err != nil {
		t.Fatal(err)
	}
	far, err := w.AddNode("node-c", seg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := far.Serve("node-c", Port{Proto: "tcp", Number: 80}); err != nil {
		t.Fatal(err)
	}
	got := nodes[0].Connect(context.Background(), Dial{Proto: "tcp", Dst: netip.AddrPortFrom(far.Addrs[0], 80)})
	if got.Who != "node-c" {
		t.Errorf("node-a to %s: %s %v", far.Addrs[0], got.Result, got.Err)
	}
}

func TestNothingIsMadeInTheCallersNamespace(t *testing.T) {
	Need(t)
	before := devices(t)
	w, _, _ := twoNodes(t)
	if got := devices(t); got != before {
		t.Errorf("devices of the test process: %s, before: %s", got, before)
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func devices(t *testing.T) (names string) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/net/dev_snmp6")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names += e.Name() + " "
	}
	return names
}

func TestNeedNamesWhatIsMissing(t *testing.T) {
	if err := Missing("time machine"); err == nil {
		t.Error("an unknown thing was not reported missing")
	}
}

func BenchmarkWorldOfTwoNodesAndFivePods(b *testing.B) {
	Need(b)
	for b.Loop() {
		w, err := New()
		if err != nil {
			b.Fatal(err)
		}
		for _, n := range []string{"node-a", "node-b"} {
			node, err := w.AddNode(n, 0)
			if err != nil {
				b.Fatal(err)
			}
			for i := range 3 {
				if n == "node-b" && i == 2 {
					continue
				}
				p, err := w.AddPod(node, "p", netip.AddrFrom4([4]byte{10, 244, byte(len(n) + i), 2}))
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Serve("p", Port{Proto: "tcp", Number: 80}); err != nil {
					b.Fatal(err)
				}
			}
		}
		if err := w.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

func TestWhoHasFindsEveryoneThatAnswers(t *testing.T) {
	Need(t)
	w, nodes, _ := twoNodes(t)
	mac, err := nodes[1].MAC()
	if err != nil {
		t.Fatal(err)
	}
	got, err := w.Outside().WhoHas(context.Background(), nodes[1].Addrs[0], 100*time.Millisecond)
	if err != nil || len(got) != 1 || got[0] != mac {
		t.Errorf("node-b: %v, %v, want %s", got, err, mac)
	}
	if got, err := w.Outside().WhoHas(context.Background(), netip.MustParseAddr("10.90.0.200"), 100*time.Millisecond); err != nil || len(got) != 0 {
		t.Errorf("an address nobody has: %v, %v", got, err)
	}
}
