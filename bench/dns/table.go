package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/podway/podway/bench/dnspeer"
)

// figures are one server's, one value a round.
type figures struct {
	qps, changing    []float64
	cpu, changingCPU []time.Duration
	p50, p99         []time.Duration
	lost             int
	one, two         float64 // with the generator on the same processor, and on two
}

func median[T float64 | time.Duration](in []T) T {
	if len(in) == 0 {
		return 0
	}
	s := slices.Clone(in)
	slices.Sort(s)
	return s[len(s)/2]
}

func (b *bench) print() {
	fmt.Printf("\n| server | QPS | CPU us/query | p50 us at %d q/s | p99 us | QPS under %d changes/s | CPU us/query | lost |\n|---|---|---|---|---|---|---|---|\n", b.rate, b.changes)
	for _, p := range b.servers {
		f := b.of[p.Name]
		fmt.Printf("| %s | %.0f | %.2f | %.0f | %.0f | %.0f | %.2f | %d |\n", p.Name, median(f.qps), us(median(f.cpu)), us(median(f.p50)), us(median(f.p99)),
			median(f.changing), us(median(f.changingCPU)), f.lost)
	}
	ours, core, knot := b.of["podway"], b.of["CoreDNS"], b.of["knot"]
	if ours.two > 0 {
		fmt.Printf("podway and its generator together on one processor: %.0f QPS; on two: %.0f (%.2f times)\n", ours.one, ours.two, ours.two/ours.one)
	}
	fmt.Printf("RESULT qps_vs_coredns=%.2f p50_vs_coredns=%.2f p99_vs_coredns=%.2f qps_vs_knot=%.2f qps_under_changes=%.2f cpu_vs_coredns=%.3f two_cores=%.2f\n",
		median(ours.qps)/median(core.qps), ratio(ours.p50, core.p50), ratio(ours.p99, core.p99), median(ours.qps)/median(knot.qps),
		median(ours.changing)/median(ours.qps), ratio(ours.cpu, core.cpu), ours.two/max(ours.one, 1))
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

func ratio(a, b []time.Duration) float64 { return float64(median(a)) / float64(median(b)) }

// scale measures podway and generator together on one processor, then on two with a generator on each: where servers
// and generators have the same share, twice the processors are twice the questions, if the server lets them.
func (b *bench) scale(ctx context.Context) error {
	if dnspeer.LoadCPU() == dnspeer.CPU() {
		return nil
	}
	var one, two []float64
	for range b.rounds {
		for _, cpus := range [][]int{{0}, {0, 1}} {
			qps, err := b.together(ctx, cpus)
			if err != nil {
				return err
			}
			if len(cpus) == 1 {
				one = append(one, qps)
			} else {
				two = append(two, qps)
			}
		}
	}
	b.of["podway"].one, b.of["podway"].two = median(one), median(two)
	return nil
}

// together runs a server on some processors and a generator on each of them.
func (b *bench) together(ctx context.Context, cpus []int) (float64, error) {
	p, err := b.podway(ctx, dnspeer.Place{CPUs: cpus, Shared: true})
	if err != nil {
		return 0, err
	}
	defer p.Stop()
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := p.Await(wait, b.cluster.Questions(seed)[0]); err != nil {
		return 0, err
	}
	type result struct {
		qps float64
		err error
	}
	results := make(chan result, len(cpus))
	for _, c := range cpus {
		go func() {
			s, _, err := b.loadOn(ctx, p, job{Window: window}, dnspeer.Place{CPUs: []int{c}, Shared: true})
			results <- result{s.QPS(), err}
		}()
	}
	sum := 0.0
	for range cpus {
		r := <-results
		if r.err != nil {
			return 0, r.err
		}
		sum += r.qps
	}
	return sum, nil
}
