package ebpf

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/model"
)

// noRules stands in for the packets' rules, so that only programs and maps are measured.
type noRules struct{ proxy.Backend }

func (noRules) Apply(context.Context, *proxy.Plan) (proxy.Applied, error) {
	return proxy.Applied{}, nil
}
func (noRules) Remove(context.Context) error { return nil }

// large is 10,000 Services with 10 endpoints each; the first one's are one less when less is set.
func large(less bool) *hoptest.Cluster {
	c := hoptest.NewCluster()
	for i := range 10000 {
		name := fmt.Sprintf("s%d", i)
		s := hoptest.Service(name, 1)
		s.ClusterIPs[0] = netip.AddrFrom4([4]byte{10, 97, byte(i >> 8), byte(i)})
		var eps []model.Endpoint
		for e := range 10 {
			if e > 0 || i > 0 || !less {
				eps = append(eps, hoptest.Ready(fmt.Sprintf("10.244.%d.%d", e%2+1, (i+e)%250)))
			}
		}
		c.Put(s, hoptest.Slice(name, eps...))
	}
	return c
}

// cpu is the time that this process has had a processor, in the kernel too: what counts on a busy machine.
func cpu() time.Duration {
	var u unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func onKernel(b *testing.B) *Backend {
	n := newNode(b)
	k := In(n.NS(), Paths{Cgroup: n.Cgroup(), BPF: n.BPF()})
	k.host.Packets = noRules{k.host.Packets}
	return k
}

// BenchmarkFill10000 is the whole first Apply: rendering, making maps, filling them, loading and attaching programs.
func BenchmarkFill10000(b *testing.B) {
	k := onKernel(b)
	p := proxy.Decide(large(false).Snapshot(), hoptest.NodeA)
	var used time.Duration
	for b.Loop() {
		start := cpu()
		if _, err := k.Apply(b.Context(), p); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		used += cpu() - start
		if err := k.Remove(b.Context()); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
	b.ReportMetric(used.Seconds()*1000/float64(b.N), "cpu-ms/op")
}

// BenchmarkChange10000 takes one endpoint away or adds it, and reads the list's length back.
func BenchmarkChange10000(b *testing.B) {
	k := onKernel(b)
	planner := proxy.NewPlanner(hoptest.NodeA)
	c := large(false)
	one := c.Snapshot()
	full := hoptest.Slice("s0")
	for e := range 10 {
		full.Endpoints = append(full.Endpoints, hoptest.Ready(fmt.Sprintf("10.244.%d.%d", e%2+1, e)))
	}
	less := *full
	less.Endpoints = full.Endpoints[1:]
	two := c.Put(&less).Snapshot()
	first, _ := planner.Update(one, model.Everything())
	second, _ := planner.Update(two, model.Diff(one, two))
	plans := []*proxy.Plan{first, second}
	if _, err := k.Apply(b.Context(), first); err != nil {
		b.Fatal(err)
	}
	key := string(front{addr: netip.MustParseAddrPort("10.97.0.0:80"), proto: flow.TCP}.append(nil))
	start := cpu()
	for i := 1; b.Loop(); i++ {
		if _, err := k.Apply(b.Context(), plans[i%2]); err != nil {
			b.Fatal(err)
		}
		v, _, err := k.kernel.Get(b.Context(), services, key)
		if err != nil || serviceOf(v).count != uint32(10-i%2) {
			b.Fatalf("change %d: %s, %v", i, serviceOf(v), err)
		}
	}
	b.ReportMetric((cpu()-start).Seconds()*1e6/float64(b.N), "cpu-us/op")
}

func BenchmarkRender10000(b *testing.B) {
	p := proxy.Decide(large(false).Snapshot(), hoptest.NodeA)
	start := cpu()
	for b.Loop() {
		collect(p)
	}
	b.ReportMetric((cpu()-start).Seconds()*1000/float64(b.N), "cpu-ms/op")
}
