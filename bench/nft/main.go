// Command nft measures how long the service proxy takes to program the kernel: a full load and single changes, in a network
// namespace of its own. It needs root. The last line of its output is for machines.
//
// With -peer it also loads the shape that has a chain and a map for each Service, with the same encoder, to show what the
// shape alone costs.
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/nft"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

func main() {
	services := flag.Int("services", 10000, "number of Services")
	endpoints := flag.Int("endpoints", 10, "endpoints of each Service")
	changes := flag.Int("changes", 1000, "single changes to measure")
	peer := flag.Int("peer", 0, "also load so many Services in the chain-per-Service shape")
	profile := flag.String("cpuprofile", "", "write a CPU profile here")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench/nft:", err)
			os.Exit(1)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err == nil {
			defer pprof.StopCPUProfile()
		}
	}
	if err := run(*services, *endpoints, *changes, *peer); err != nil {
		fmt.Fprintln(os.Stderr, "bench/nft:", err)
		os.Exit(1)
	}
}

// result are the figures of one run.
type result struct {
	full, fullCPU, fullKernel, restart, read, ask time.Duration
	changes                                       []time.Duration
	rss                                           int
}

func run(services, endpoints, changes, peer int) error {
	r, err := measure(services, endpoints, changes)
	if err != nil {
		return err
	}
	fmt.Printf("%-34s %d Services x %d endpoints, GOMAXPROCS %d\n", "nf_tables, plain maps", services, endpoints, runtime.GOMAXPROCS(0))
	row := func(what string, d time.Duration) { fmt.Printf("  %-32s %10.3f ms\n", what, ms(d)) }
	row("full load (plan, render, kernel)", r.full)
	row("full load, CPU time", r.fullCPU)
	row("full load, of that in the kernel", r.fullKernel)
	row("restart: read, compare, adopt", r.restart)
	row("read back everything", r.read)
	row("what would become of one flow", r.ask)
	for _, p := range []int{50, 90, 99, 100} {
		row(fmt.Sprintf("one acknowledged change, p%d", p), percentile(r.changes, p))
	}
	fmt.Printf("  %-32s %10d MiB\n", "memory of this process (RSS)", r.rss)
	line := fmt.Sprintf("RESULT services=%d endpoints=%d full_load_s=%.3f full_load_cpu_s=%.3f restart_s=%.3f change_ms_p50=%.3f change_ms_p99=%.3f rss_mib=%d",
		services, endpoints, r.full.Seconds(), r.fullCPU.Seconds(), r.restart.Seconds(), ms(percentile(r.changes, 50)), ms(percentile(r.changes, 99)), r.rss)
	if peer > 0 {
		p, err := measurePeer(peer, endpoints)
		if err != nil {
			return err
		}
		fmt.Printf("%-34s %d Services x %d endpoints\n", "nf_tables, a chain for each Service", peer, endpoints)
		row("full load (rules only)", p.full)
		row("one acknowledged change, p50", percentile(p.changes, 50))
		line += fmt.Sprintf(" peer_services=%d peer_full_load_s=%.3f peer_change_ms_p50=%.3f", peer, p.full.Seconds(), ms(percentile(p.changes, 50)))
	}
	fmt.Println(line)
	return nil
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func percentile(ds []time.Duration, p int) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ds))
	return s[min(len(s)*p/100, len(s)-1)]
}

// measure loads a cluster into a fresh namespace, changes single Services, and starts anew on the live tables.
func measure(services, endpoints, changes int) (result, error) {
	var r result
	ctx := context.Background()
	ns, err := netns.New()
	if err != nil {
		return r, err
	}
	defer ns.Close()
	c := newCluster(services, endpoints)
	p := proxy.New(proxy.Options{Node: nodeName, Backend: nft.In(ns)})
	have := c.snapshot()
	runtime.GC()
	start := time.Now()
	cpu, kernel := cpuTime()
	if _, err := p.Apply(ctx, have, model.Everything()); err != nil {
		return r, err
	}
	r.full = time.Since(start)
	r.fullCPU, r.fullKernel = cpuTime()
	r.fullCPU, r.fullKernel = r.fullCPU-cpu, r.fullKernel-kernel
	k, err := knft.Open(ns)
	if err != nil {
		return r, err
	}
	defer k.Close()
	for i := range changes {
		next := c.change(i)
		start := time.Now()
		if _, err := p.Apply(ctx, next, model.Diff(have, next)); err != nil {
			return r, err
		}
		r.changes = append(r.changes, time.Since(start))
		have = next
	}
	r.rss = rssMiB()
	start = time.Now()
	if _, err := k.Read(ctx, knft.IPv4, "podway-proxy"); err != nil {
		return r, err
	}
	r.read = time.Since(start)
	start = time.Now()
	f := flow.Flow{From: flow.FromPod, Proto: flow.TCP, Src: netip.MustParseAddrPort("10.244.0.9:0"), Dst: netip.MustParseAddrPort("10.96.0.7:80")}
	if v, err := p.Programmed(ctx, f); err != nil || v.Action != flow.Forward {
		return r, fmt.Errorf("the kernel does not forward %s: %s, %v", f, v, err)
	}
	r.ask = time.Since(start)
	again := proxy.New(proxy.Options{Node: nodeName, Backend: nft.In(ns)})
	start = time.Now()
	report, err := again.Apply(ctx, have, model.Everything())
	if err != nil {
		return r, err
	}
	r.restart = time.Since(start)
	if report.Changed != 0 {
		return r, fmt.Errorf("the kernel did not have what was applied: a restart changed %d objects", report.Changed)
	}
	return r, nil
}
