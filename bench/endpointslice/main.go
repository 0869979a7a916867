// Command endpointslice measures what one Pod that turns ready or not ready costs: podway's EndpointSlice controller against
// k8s.io/endpointslice, the reconciler in kube-controller-manager, in one run, turn by turn. It needs nothing of the host.
// The last line of its output is for machines.
//
// podway's figure is from a new snapshot to the answer of the API: difference, index, queue, plan, encoding, write. The
// library's is its Reconcile alone, with the Pods at hand, without kube-controller-manager's queues and listing of Pods.
package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"time"

	"github.com/podway/podway/internal/control/controltest"
)

func main() {
	rounds := flag.Int("rounds", 100, "flips of each kind")
	peer := flag.Bool("peer", true, "measure the library beside it")
	profile := flag.String("cpuprofile", "", "write a CPU profile here")
	flag.Parse()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench/endpointslice:", err)
			os.Exit(1)
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err == nil {
			defer pprof.StopCPUProfile()
		}
	}
	if err := run(*rounds, *peer); err != nil {
		fmt.Fprintln(os.Stderr, "bench/endpointslice:", err)
		os.Exit(1)
	}
}

var sizes = []int{100, 1000, 5000}

// subject is one of the two, with a Service of so many Pods, at work on an API.
type subject interface {
	flip() (time.Duration, error)
	close() error
}

// row is what is measured at one size.
type row struct {
	pods                                int
	compute, peerCompute, full, peerAll []time.Duration
}

func run(rounds int, peer bool) error {
	rows := make([]row, len(sizes))
	var turns []func() error
	var all []subject
	for i, n := range sizes {
		rows[i].pods = n
		add := func(into *[]time.Duration, make func(int, *api) (subject, error), a *api) error {
			s, err := make(n, a)
			if err != nil {
				return err
			}
			all = append(all, s)
			turns = append(turns, func() error {
				d, err := s.flip()
				*into = append(*into, d)
				return err
			})
			return nil
		}
		if err := add(&rows[i].compute, newPodway, instant()); err != nil {
			return err
		}
		if err := add(&rows[i].full, newPodway, inMemory(controltest.New())); err != nil {
			return err
		}
		if !peer {
			continue
		}
		if err := add(&rows[i].peerCompute, newLibrary, instant()); err != nil {
			return err
		}
		if err := add(&rows[i].peerAll, newLibrary, inMemory(controltest.New())); err != nil {
			return err
		}
	}
	for range rounds + 3 { // the first three warm up
		for _, turn := range turns {
			runtime.GC() // nobody pays for the garbage of the one before
			if err := turn(); err != nil {
				return err
			}
		}
	}
	for _, s := range all {
		if err := s.close(); err != nil {
			return err
		}
	}
	report(rows, peer)
	return nil
}

func report(rows []row, peer bool) {
	fmt.Printf("one Pod flips; medians (p90) in ms, GOMAXPROCS %d\n", runtime.GOMAXPROCS(0))
	fmt.Printf("%6s  %-38s  %-38s\n", "", "computed and encoded, write at no cost", "written to client-go's API in memory")
	fmt.Printf("%6s  %16s  %16s %4s  %16s  %16s %4s\n", "Pods", "podway", "library", "x", "podway", "library", "x")
	for _, r := range rows {
		fmt.Printf("%6d  %16s  %16s %4.0f  %16s  %16s %4.0f\n", r.pods, cell(r.compute), cell(r.peerCompute), ratio(r.peerCompute, r.compute),
			cell(r.full), cell(r.peerAll), ratio(r.peerAll, r.full))
	}
	line := "RESULT"
	for _, r := range rows {
		line += fmt.Sprintf(" flip%d_ms=%.3f", r.pods, median(r.full))
	}
	if peer {
		for _, r := range rows[1:] {
			line += fmt.Sprintf(" speedup%d=%.1f", r.pods, ratio(r.peerAll, r.full))
		}
	}
	for _, r := range rows {
		line += fmt.Sprintf(" compute%d_ms=%.3f", r.pods, median(r.compute))
	}
	if peer {
		for _, r := range rows[1:] {
			line += fmt.Sprintf(" compute_speedup%d=%.1f", r.pods, ratio(r.peerCompute, r.compute))
		}
	}
	fmt.Println(line)
}

func cell(d []time.Duration) string { return fmt.Sprintf("%.3f (%.3f)", median(d), percentile(d, 90)) }

func ratio(a, b []time.Duration) float64 {
	if len(a) == 0 || len(b) == 0 {
		return 0
	}
	return median(a) / median(b)
}

func median(d []time.Duration) float64 { return percentile(d, 50) }

// percentile is in milliseconds; the first three figures do not count.
func percentile(d []time.Duration, p int) float64 {
	if len(d) <= 3 {
		return 0
	}
	s := slices.Sorted(slices.Values(d[3:]))
	return float64(s[min(len(s)*p/100, len(s)-1)]) / float64(time.Millisecond)
}
