package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podway/podway/internal/agent"
	"github.com/podway/podway/internal/cluster"
	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/model"
)

// measurePodway runs this program again in a namespace of its own, so that memory and namespace are fresh.
func measurePodway(ctx context.Context, mode string, s size) (f figures, err error) {
	self, err := os.Executable()
	if err != nil {
		return f, err
	}
	ns, err := netns.New()
	if err != nil {
		return f, err
	}
	defer ns.Close()
	c := exec.CommandContext(ctx, self, "-mode", mode, "-side", fmt.Sprintf("%dx%d", s.services, s.endpoints))
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, os.Stderr
	if err := ns.Do(c.Start); err != nil {
		return f, err
	}
	if err := c.Wait(); err != nil {
		return f, err
	}
	return f, json.Unmarshal(out.Bytes(), &f)
}

// printPodway is that other run.
func printPodway(ctx context.Context, mode, what string) error {
	var s size
	if _, err := fmt.Sscanf(what, "%dx%d", &s.services, &s.endpoints); err != nil {
		return err
	}
	f, err := podwayHere(ctx, mode, s)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(f)
}

// podwayHere loads a cluster and changes one endpoint after another. Apply returns when the kernel has acknowledged; that
// it has what was wanted is read back after each change, outside of its time.
func podwayHere(ctx context.Context, mode string, s size) (f figures, err error) {
	connections, err := conntrack.Open(nil)
	if err != nil {
		return f, err
	}
	backend, err := agent.Backend(mode, nil)
	if err != nil {
		return f, err
	}
	p := proxy.New(proxy.Options{Node: nodeName, Backend: backend, Connections: connections, ServiceCIDRs: serviceCIDRs})
	b := model.NewBuilder(nil)
	b.Put(cluster.Convert(thisNode()))
	for i := range s.services {
		b.Put(cluster.Convert(service(i)))
		b.Put(cluster.Convert(slice(i, s.endpoints, 0)))
	}
	have := b.Snapshot(time.Now())
	runtime.GC()
	start, cpu := time.Now(), cpuTime()
	if _, err := p.Apply(ctx, have, model.Everything()); err != nil {
		return f, err
	}
	f.Full, f.FullCPU = time.Since(start), cpuTime()-cpu
	for round := 1; round <= mostOurs; round++ {
		i := changed(round, s.services)
		b.Put(cluster.Convert(slice(i, s.endpoints, round)))
		next := b.Snapshot(time.Now())
		start := time.Now()
		if _, err := p.Apply(ctx, next, model.Diff(have, next)); err != nil {
			return f, err
		}
		f.Changes = append(f.Changes, time.Since(start))
		have = next
		if err := holds(ctx, p, next, i); err != nil {
			return f, err
		}
	}
	f.RSSKiB = rss()
	return f, adopted(ctx, mode, have)
}

// holds reads back what the kernel does with a connection to Service i.
func holds(ctx context.Context, p *proxy.Proxy, s *model.Snapshot, i int) error {
	f := flow.Flow{From: flow.FromPod, Node: nodeName, Proto: flow.TCP, Src: netip.MustParseAddrPort("10.244.0.9:0"), Dst: netip.AddrPortFrom(clusterIP(i), 80)}
	v, err := p.Programmed(ctx, f)
	if err != nil {
		return err
	}
	if want := endpointsOf(s, i); !slices.Equal(v.Targets, want) {
		return fmt.Errorf("the kernel sends %s to %v, not to %v", f, v.Targets, want)
	}
	return nil
}

func endpointsOf(s *model.Snapshot, i int) (out []netip.AddrPort) {
	s.Backends(model.N("shop", name(i))).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		out = append(out, netip.AddrPortFrom(e.Addr, 8080))
	})
	slices.SortFunc(out, netip.AddrPort.Compare)
	return out
}

// adopted reads everything back: a proxy that starts anew must find nothing to change.
func adopted(ctx context.Context, mode string, s *model.Snapshot) error {
	backend, err := agent.Backend(mode, nil)
	if err != nil {
		return err
	}
	again := proxy.New(proxy.Options{Node: nodeName, Backend: backend, ServiceCIDRs: serviceCIDRs})
	r, err := again.Apply(ctx, s, model.Everything())
	if err == nil && r.Changed != 0 {
		err = fmt.Errorf("the kernel did not have what was applied: a restart changed %d objects", r.Changed)
	}
	return err
}

// cpuTime is what this process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// rss is this process's resident memory in KiB, 0 when it is not known.
func rss() int64 {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		var kib int64
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return kib
		}
	}
	return 0
}
