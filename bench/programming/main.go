// Command programming measures how long it takes from the API write that makes a Pod Ready until its Service answers on
// another node, in a real cluster with 10,000 Services of which 50 a second change: podway's controller and agent on one
// side, kube-controller-manager and kube-proxy v1.37 in mode nftables on the other. Each side has a cluster of its own;
// they take turns, and the one whose turn it is not is left in peace.
//
// It needs root, is run from the repository's root and builds what it starts. The last line of its output is for machines.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"time"
)

type options struct {
	services int // each with one Pod
	changes  int // a second
	rounds   int // turns of each side
	samples  int // in a turn of podway's
	peer     int // in one of kube-proxy's
}

func main() {
	var o options
	flag.IntVar(&o.services, "services", 10000, "number of Services, each with one Pod")
	flag.IntVar(&o.changes, "changes", 50, "Pods a second whose readiness changes meanwhile")
	flag.IntVar(&o.rounds, "rounds", 5, "turns of each side")
	flag.IntVar(&o.samples, "samples", 20, "measurements in a turn of podway's")
	flag.IntVar(&o.peer, "peer-samples", 5, "measurements in a turn of kube-proxy's, which takes many times as long")
	listen := flag.String("listen", "", "internal: accept connections at this address and close them")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	if *listen != "" {
		err = accept(ctx, *listen)
	} else {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/programming:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) (err error) {
	if o.services <= sampled {
		return fmt.Errorf("at least %d Services are needed", sampled+1)
	}
	build := exec.CommandContext(ctx, "make", "deps", "build", "FOR=tests")
	build.Stdout, build.Stderr = os.Stderr, os.Stderr
	if err := build.Run(); err != nil {
		return fmt.Errorf("build: %w", err)
	}
	var sides []*world
	defer func() {
		for _, w := range sides {
			err = errors.Join(err, w.stop())
		}
	}()
	for _, start := range []func(context.Context) (*world, error){startPodway, startKube} {
		w, e := start(ctx)
		if w != nil {
			sides = append(sides, w)
		}
		if e != nil {
			return e
		}
		if err := w.fill(ctx, o.services); err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
	}
	for round := range o.rounds {
		for i, w := range sides {
			if err := w.measure(ctx, o, [...]int{o.samples, o.peer}[i]); err != nil {
				return fmt.Errorf("%s, round %d: %w", w.name, round+1, err)
			}
		}
	}
	report(o, sides[0], sides[1])
	if rate := sides[0].rate(); rate < 0.9*float64(o.changes) {
		return fmt.Errorf("podway met %.1f of %d changes a second: the machine is too busy", rate, o.changes)
	}
	return nil
}

func report(o options, ours, theirs *world) {
	fmt.Printf("%d Services, %d changes a second asked for meanwhile, %d and %d measurements; milliseconds from the API write (its own time included)\n",
		o.services, o.changes, len(ours.took), len(theirs.took))
	fmt.Printf("%-12s %9s %9s %9s %12s\n", "", "p50", "p99", "max", "changes/s")
	for _, w := range []*world{ours, theirs} {
		fmt.Printf("%-12s %9.1f %9.1f %9.1f %12.1f\n", w.name, ms(w.percentile(50)), ms(w.percentile(99)), ms(w.percentile(100)), w.rate())
	}
	fmt.Printf("RESULT podway_p50_ms=%.1f podway_p99_ms=%.1f kubeproxy_p50_ms=%.1f kubeproxy_p99_ms=%.1f p50_ratio=%.1f p99_ratio=%.1f podway_changes=%.1f kubeproxy_changes=%.1f\n",
		ms(ours.percentile(50)), ms(ours.percentile(99)), ms(theirs.percentile(50)), ms(theirs.percentile(99)),
		float64(theirs.percentile(50))/float64(ours.percentile(50)), float64(theirs.percentile(99))/float64(ours.percentile(99)), ours.rate(), theirs.rate())
}

// rate is the lowest rate of changes in a turn.
func (w *world) rate() float64 { return slices.Min(w.rates) }

func (w *world) percentile(p int) time.Duration {
	s := slices.Sorted(slices.Values(w.took))
	return s[min(len(s)*p/100, len(s)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
