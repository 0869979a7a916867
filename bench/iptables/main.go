// Command iptables measures how long the service proxy takes to program the kernel in mode iptables: a full load, single
// changes and a restart, with each variant of the tools, in network namespaces of its own. It needs root. With -peer it
// also runs the real kube-proxy's mode iptables on the same objects (the program of lab/kubeproxy).
package main

import (
	"context"
	"flag"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/iptables"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/model"
)

func main() {
	services := flag.Int("services", 1000, "number of Services")
	endpoints := flag.Int("endpoints", 10, "endpoints of each Service")
	changes := flag.Int("changes", 20, "single changes to measure")
	variants := flag.String("variants", "nft,legacy", "variants of the tools")
	peer := flag.String("peer", "", "path of the program of lab/kubeproxy, to run beside")
	flag.Parse()
	line := fmt.Sprintf("RESULT services=%d endpoints=%d", *services, *endpoints)
	for _, v := range strings.Split(*variants, ",") {
		r, err := measure(newCluster(*services, *endpoints), kipt.Variant(v), *changes)
		if err == nil && *peer != "" {
			r.peer, err = measurePeer(*peer, newCluster(*services, *endpoints), kipt.Variant(v), *changes)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench/iptables:", err)
			os.Exit(1)
		}
		line += r.print(v)
	}
	fmt.Println(line)
}

// took is wall clock, and CPU time of this process and the tools that it ran.
type took struct{ wall, cpu time.Duration }

// result are the figures of one run.
type result struct {
	full, restart, check, ask took
	endpoint, service         []took // changes of one endpoint, and of one Service with its frontend
	peer                      *result
}

func (r *result) print(variant string) string {
	row := func(what string, t took) {
		fmt.Printf("  %-44s %10.1f ms, CPU %10.1f ms\n", what, ms(t.wall), ms(t.cpu))
	}
	fmt.Printf("iptables-%s\n", variant)
	row("full load (plan, render, tools, kernel)", r.full)
	row("one endpoint changes, median", median(r.endpoint))
	row("a Service comes or goes, median", median(r.service))
	row("restart: read, compare, adopt", r.restart)
	row("drift check when nobody wrote", r.check)
	row("what would become of one flow", r.ask)
	out := fmt.Sprintf(" %s_full_s=%.3f %s_full_cpu_s=%.3f %s_change_ms=%.1f %s_change_cpu_ms=%.1f %s_restart_s=%.3f", variant, r.full.wall.Seconds(),
		variant, r.full.cpu.Seconds(), variant, ms(median(r.endpoint).wall), variant, ms(median(r.endpoint).cpu), variant, r.restart.wall.Seconds())
	if p := r.peer; p != nil {
		row("kube-proxy: full load", p.full)
		row("kube-proxy: one endpoint changes, median", median(p.endpoint))
		out += fmt.Sprintf(" %s_peer_full_s=%.3f %s_peer_change_ms=%.1f", variant, p.full.wall.Seconds(), variant, ms(median(p.endpoint).wall))
	}
	return out
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median(ts []took) took {
	if len(ts) == 0 {
		return took{}
	}
	s := slices.SortedFunc(slices.Values(ts), func(a, b took) int { return int(a.wall - b.wall) })
	return s[len(s)/2]
}

// timed measures f.
func timed(f func() error) (took, error) {
	cpu, start := cpuTime(), time.Now()
	err := f()
	return took{time.Since(start), cpuTime() - cpu}, err
}

func cpuTime() time.Duration {
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if syscall.Getrusage(who, &u) == nil {
			sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
		}
	}
	return sum
}

func open(ns *netns.NS, v kipt.Variant) *iptables.Backend {
	return iptables.New(func() (kipt.Door, error) { return kipt.Open(ns, v) }, nil)
}

// measure loads a cluster into a fresh namespace, changes it, and starts anew on the live rules.
func measure(c *cluster, v kipt.Variant, changes int) (r result, err error) {
	ctx := context.Background()
	ns, err := netns.New()
	if err != nil {
		return r, err
	}
	defer ns.Close()
	p := proxy.New(proxy.Options{Node: nodeName, Backend: open(ns, v)})
	have := c.snapshot()
	if r.full, err = timed(func() error { _, err := p.Apply(ctx, have, model.Everything()); return err }); err != nil {
		return r, err
	}
	step := func(next *model.Snapshot) (took, error) {
		t, err := timed(func() error { _, err := p.Apply(ctx, next, model.Diff(have, next)); return err })
		have = next
		return t, err
	}
	for i := range changes {
		t, err := step(c.change(i))
		if err != nil {
			return r, err
		}
		r.endpoint = append(r.endpoint, t)
		if t, err = step(c.comeOrGo(i)); err != nil {
			return r, err
		}
		r.service = append(r.service, t)
	}
	r.check, err = timed(func() error {
		drift, err := p.Check(ctx)
		if err == nil && drift != "" {
			err = fmt.Errorf("the kernel does not have what was applied: %s", drift)
		}
		return err
	})
	if err != nil {
		return r, err
	}
	f := flow.Flow{From: flow.FromPod, Proto: flow.TCP, Src: netip.MustParseAddrPort("10.244.0.9:0"), Dst: netip.MustParseAddrPort("10.96.0.7:80")}
	r.ask, err = timed(func() error {
		v, err := p.Programmed(ctx, f)
		if err == nil && v.Action != flow.Forward {
			err = fmt.Errorf("the kernel does not forward %s: %s", f, v)
		}
		return err
	})
	if err != nil {
		return r, err
	}
	again := proxy.New(proxy.Options{Node: nodeName, Backend: open(ns, v)})
	r.restart, err = timed(func() error {
		report, err := again.Apply(ctx, have, model.Everything())
		if err == nil && report.Changed != 0 {
			err = fmt.Errorf("a restart changed %d objects", report.Changed)
		}
		return err
	})
	return r, err
}
