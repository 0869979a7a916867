// Command programming measures how long it takes from the API write that makes a Pod Ready until its Service answers on
// another node, in a real cluster with 10,000 Services of which 50 a second change: podway's controller and agent on one
// side, kube-controller-manager and kube-proxy v1.37 in mode nftables on the other. Each side has a cluster of its own, and
// the machine for itself: with so many changes the peer's programs need all of it.
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
	rounds   int // of each side
	samples  int // in a round of podway's
	peer     int // in one of kube-proxy's
}

func main() {
	var o options
	flag.IntVar(&o.services, "services", 10000, "number of Services, each with one Pod")
	flag.IntVar(&o.changes, "changes", 50, "Pods a second whose readiness changes meanwhile")
	flag.IntVar(&o.rounds, "rounds", 5, "rounds of each side")
	flag.IntVar(&o.samples, "samples", 20, "measurements in a round of podway's")
	flag.IntVar(&o.peer, "peer-samples", 5, "measurements in a round of kube-proxy's, which takes many times as long")
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
	for i, start := range []func(context.Context) (*world, error){startPodway, startKube} {
		w, err := start(ctx)
		if err == nil {
			err = w.turn(ctx, o, [...]int{o.samples, o.peer}[i])
		}
		if w != nil {
			err = errors.Join(err, w.stop())
		}
		if err != nil {
			return err
		}
		sides = append(sides, w)
	}
	report(o, sides[0], sides[1])
	if rate := sides[0].rate(); rate < 0.9*float64(o.changes) {
		return fmt.Errorf("podway met %.1f of %d changes a second: the machine is too busy", rate, o.changes)
	}
	return nil
}

// turn fills the side's cluster and measures it.
func (w *world) turn(ctx context.Context, o options, samples int) error {
	if err := w.fill(ctx, o.services); err != nil {
		return fmt.Errorf("%s: %w", w.name, err)
	}
	for round := range o.rounds {
		if err := w.measure(ctx, o, samples); err != nil {
			return fmt.Errorf("%s, round %d: %w", w.name, round+1, err)
		}
	}
	return nil
}

func report(o options, ours, theirs *world) {
	fmt.Printf("%d Services, %d changes a second asked for meanwhile, %d and %d measurements; milliseconds from the API write (its own time included)\n",
		o.services, o.changes, len(ours.took), len(theirs.took))
	fmt.Printf("%-12s %9s %9s %9s %12s %14s\n", "", "p50", "p99", "max", "changes/s", "API write p50")
	for _, w := range []*world{ours, theirs} {
		fmt.Printf("%-12s %9.1f %9.1f %9.1f %12.1f %14.1f\n", w.name, ms(percentile(w.took, 50)), ms(percentile(w.took, 99)), ms(percentile(w.took, 100)), w.rate(), ms(percentile(w.writes, 50)))
	}
	fmt.Printf("RESULT podway_p50_ms=%.1f podway_p99_ms=%.1f kubeproxy_p50_ms=%.1f kubeproxy_p99_ms=%.1f p50_ratio=%.1f p99_ratio=%.1f podway_changes=%.1f kubeproxy_changes=%.1f\n",
		ms(percentile(ours.took, 50)), ms(percentile(ours.took, 99)), ms(percentile(theirs.took, 50)), ms(percentile(theirs.took, 99)),
		float64(percentile(theirs.took, 50))/float64(percentile(ours.took, 50)), float64(percentile(theirs.took, 99))/float64(percentile(ours.took, 99)), ours.rate(), theirs.rate())
}

// rate is the lowest rate of changes in a round.
func (w *world) rate() float64 { return slices.Min(w.rates) }

func percentile(all []time.Duration, p int) time.Duration {
	s := slices.Sorted(slices.Values(all))
	return s[min(len(s)*p/100, len(s)-1)]
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
