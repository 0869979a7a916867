package podnet

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
)

// large is node "a" with n peers, half of them behind the tunnel.
func large(n int) *model.Snapshot {
	lines := []string{"a 10.0.0.1 10.244.1.0/24"}
	for i := range n {
		lines = append(lines, fmt.Sprintf("n%d 10.%d.%d.%d 100.%d.%d.0/24", i, i%2*7, i/200, i%200+2, 64+i/256, i%256))
	}
	return clusterOf(lines...)
}

func BenchmarkPlan(b *testing.B) {
	host := machine("10.0.0.1/16")
	for _, n := range []int{100, 5000} {
		s := large(n)
		b.Run(fmt.Sprintf("%d nodes", n), func(b *testing.B) {
			for b.Loop() {
				Plan(s, Options{Node: "a"}, host)
			}
		})
	}
}

// BenchmarkCheck is what the agent does every second: 100 Pods, and other nodes.
func BenchmarkCheck(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("%d nodes", n), func(b *testing.B) {
			h := benchHop(b, 100)
			r, err := h.Apply(context.Background(), large(n), model.Everything())
			if err != nil || len(r.Findings) > 0 {
				b.Fatal(r.Findings, err)
			}
			b.ReportMetric(float64(r.Took.Milliseconds()), "ms/apply")
			for b.Loop() {
				if drift, err := h.Check(context.Background()); err != nil || drift != "" {
					b.Fatal(drift, err)
				}
			}
		})
	}
}

func benchHop(b *testing.B, pods int) *Hop {
	ns, err := netns.New()
	if err != nil {
		b.Fatal(err)
	}
	dir := b.TempDir()
	h, err := New(ns, Options{Node: "a", ConfigPath: dir + "/podnet.json", StoreDir: dir + "/store"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { h.Close(); ns.Close() })
	k, routes := h.doors.links.(*link.Kernel), h.doors.routes.(*route.Kernel)
	ok := func(err error) {
		if err != nil {
			b.Fatal(err)
		}
	}
	ok(k.AddPair(link.Pair{Name: "eth0", Peer: "wire", MTU: 1500}))
	ok(k.AddAddr("eth0", netip.MustParsePrefix("10.0.0.1/16")))
	ok(k.SetUp("eth0", true))
	for i := range pods {
		c := fmt.Sprint(i)
		r, err := h.Store().Reserve(ipam.Reservation{Container: c, IfName: "eth0", Veth: VethName(c, "eth0")}, []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}, nil)
		ok(err)
		ok(k.AddPair(link.Pair{Name: r.Veth, Peer: "peer" + c, MTU: 1500}))
		ok(k.SetAlias(r.Veth, "podway: x eth0"))
		ok(k.SetUp(r.Veth, true))
		ok(routes.Put(route.Route{Dst: single(r.Addrs[0]), Device: r.Veth, Proto: RouteProtocol}))
	}
	return h
}
