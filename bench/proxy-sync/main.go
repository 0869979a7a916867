// Command proxy-sync measures how long the service proxy takes to program the kernel, beside the real kube-proxy v1.37 in
// the same mode (nftables, or -mode iptables): a full load, and one endpoint that changes, at growing numbers of Services. Both sides take turns in one
// run, each round in a fresh process and a fresh network namespace; kube-proxy's sync is called directly, without the
// delay of its informers. Figures are medians over the rounds.
//
// It needs root, is run from the repository's root and builds kube-proxy's proxiers from the nested module lab/. The last
// line of its output is for machines.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/nettest/kubeproxy"
)

// size is one size of a cluster.
type size struct{ services, endpoints int }

// String is as in "10k x 2".
func (s size) String() string { return fmt.Sprintf("%s x %d", short(s.services), s.endpoints) }

func short(n int) string {
	if n%1000 == 0 {
		return fmt.Sprintf("%dk", n/1000)
	}
	return fmt.Sprint(n)
}

// figures are what one side needed for one size.
type figures struct {
	Full, FullCPU time.Duration
	Changes       []time.Duration // of one endpoint each
	RSSKiB        int64
	// Late is the time after which the side was given up; the other fields are zero then.
	Late time.Duration
}

var (
	all   = []size{{1000, 2}, {1000, 10}, {5000, 2}, {10000, 2}, {10000, 10}, {30000, 2}}
	quick = []size{{1000, 2}, {1000, 10}}
)

func main() {
	rounds := flag.Int("rounds", 3, "how often each size is measured")
	small := flag.Bool("quick", false, "small sizes, once")
	limit := flag.Duration("limit", 120*time.Second, "after which kube-proxy is given up at a size, and not asked at larger ones")
	side := flag.String("side", "", "internal: measure podway at SERVICESxENDPOINTS in this namespace and print JSON")
	mode := flag.String("mode", "nftables", "of both: nftables or iptables")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case *side != "":
		err = printPodway(ctx, *mode, *side)
	case *small:
		err = run(ctx, *mode, quick, 1, *limit)
	default:
		err = run(ctx, *mode, all, *rounds, *limit)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench/proxy-sync:", err)
		os.Exit(1)
	}
}

// results are the rounds of each side at each size.
type results map[size]*[2][]figures

const (
	podway = iota
	kube
)

func run(ctx context.Context, mode string, sizes []size, rounds int, limit time.Duration) error {
	peer, err := kubeproxy.Build(ctx)
	if err != nil {
		return err
	}
	got, late := results{}, false
	for _, s := range sizes {
		got[s] = &[2][]figures{}
		for round := range rounds {
			ours, err := measurePodway(ctx, mode, s)
			if err != nil {
				return fmt.Errorf("podway at %s: %w", s, err)
			}
			got[s][podway] = append(got[s][podway], ours)
			if late {
				continue
			}
			theirs, err := measureKube(ctx, peer, mode, s, limit)
			if err != nil {
				return fmt.Errorf("kube-proxy at %s: %w", s, err)
			}
			got[s][kube] = append(got[s][kube], theirs)
			if theirs.Late > 0 && round == 0 {
				late = true
			}
		}
		got.print(s)
	}
	fmt.Println(got.last())
	return nil
}

// full is the median of a side's full loads; 0 when there is none.
func (r results) full(s size, side int) time.Duration {
	return r.median(s, side, func(f figures) []time.Duration { return []time.Duration{f.Full} })
}

func (r results) change(s size, side int) time.Duration {
	return r.median(s, side, func(f figures) []time.Duration { return []time.Duration{percentile(f.Changes, 50)} })
}

func (r results) median(s size, side int, of func(figures) []time.Duration) time.Duration {
	if r[s] == nil {
		return 0
	}
	var all []time.Duration
	for _, f := range r[s][side] {
		if f.Late == 0 {
			all = append(all, of(f)...)
		}
	}
	return percentile(all, 50)
}

func percentile(ds []time.Duration, p int) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(ds))
	return s[min(len(s)*p/100, len(s)-1)]
}

// print writes the two lines of a size.
func (r results) print(s size) {
	for side, name := range []string{"podway", "kube-proxy"} {
		rounds := r[s][side]
		switch {
		case len(rounds) == 0:
			fmt.Printf("%-9s %-10s not asked: it was given up at a smaller size\n", s, name)
			continue
		case rounds[0].Late > 0:
			fmt.Printf("%-9s %-10s not done after %s\n", s, name, rounds[0].Late)
			continue
		}
		var p99 []time.Duration
		rss := int64(0)
		for _, f := range rounds {
			p99, rss = append(p99, percentile(f.Changes, 99)), max(rss, f.RSSKiB)
		}
		cpu := r.median(s, side, func(f figures) []time.Duration { return []time.Duration{f.FullCPU} })
		fmt.Printf("%-9s %-10s full load %10.3f ms (CPU %10.3f ms)   one change p50 %9.3f ms, p99 %9.3f ms   RSS %4d MiB\n",
			s, name, ms(r.full(s, side)), ms(cpu), ms(r.change(s, side)), ms(percentile(p99, 50)), rss>>10)
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// last is the line for machines. What was not measured is left out.
func (r results) last() string {
	var parts []string
	ratio := func(name string, s size, of func(size, int) time.Duration) {
		if a, b := of(s, podway), of(s, kube); a > 0 && b > 0 {
			parts = append(parts, fmt.Sprintf("%s=%.1f", name, float64(b)/float64(a)))
		}
	}
	ratio("full10kx2_speedup", size{10000, 2}, r.full)
	ratio("full10kx10_speedup", size{10000, 10}, r.full)
	ratio("change10k_speedup", size{10000, 2}, r.change)
	if d := r.change(size{30000, 2}, podway); d > 0 {
		parts = append(parts, fmt.Sprintf("change30k_ms=%.3f full30kx2_s=%.3f", ms(d), r.full(size{30000, 2}, podway).Seconds()))
	}
	if x := r[size{10000, 2}]; x != nil && len(x[podway]) > 0 {
		parts = append(parts, fmt.Sprintf("rss10k_mb=%d", x[podway][0].RSSKiB>>10))
	}
	if len(parts) == 0 {
		ratio("full1kx2_speedup", size{1000, 2}, r.full)
		ratio("change1k_speedup", size{1000, 2}, r.change)
	}
	return "RESULT " + strings.Join(parts, " ")
}
