// Command proxy-path measures what the service proxy's rules cost the traffic: new connections, their latency, UDP round
// trips and throughput from a Pod through a ClusterIP to a Pod, at growing numbers of Services; podway's modes and the real
// kube-proxy's, each on a node of its own, take turns in one run. The direct way to the same kind of Pod is the measure, on a
// node that does not even track connections.
//
// The last size is one Service with 1,000 endpoints, over which the old modes of kube-proxy are compared so often. Most
// kernels lack IPVS: -vm measures that size alone in an emulated machine, whose ratios count and nothing else.
//
// It needs root and builds kube-proxy's proxiers from the nested module lab/. The last line of its output is for machines.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podway/podway/internal/nettest/kubeproxy"
)

// config is what a run is to do.
type config struct {
	sizes   []size
	rounds  int
	window  time.Duration
	patient time.Duration // a peer that loads longer than this is left out, and at all larger sizes
	lanes   []string
	client  bool
}

// size is that of a cluster: Services, of which the last one is measured, and its endpoints.
type size struct{ services, backends int }

// few are the endpoints of a Service when nothing else is said.
const few = 2

func (s size) many() bool { return s.backends > few }

func (s size) String() string {
	if s.many() {
		return fmt.Sprintf("%d x %d endpoints", s.services, s.backends)
	}
	return fmt.Sprintf("%d Services", s.services)
}

// parseSize reads "10000", or "1x1000".
func parseSize(text string) (size, error) {
	s := size{backends: few}
	n, endpoints, more := strings.Cut(text, "x")
	var err, err2 error
	if s.services, err = strconv.Atoi(n); more {
		s.backends, err2 = strconv.Atoi(endpoints)
	}
	if err != nil || err2 != nil || s.services < 1 || s.services > mostServices || s.backends < 1 || s.backends > mostBackends {
		return s, fmt.Errorf("-sizes: %q: want Services from 1 to %d, or SERVICESxENDPOINTS with up to %d endpoints", text, mostServices, mostBackends)
	}
	return s, nil
}

func main() {
	var c config
	sizes := flag.String("sizes", "1,1000,10000,30000,1x1000", "numbers of Services with two endpoints, or SERVICESxENDPOINTS")
	lanes := flag.String("lanes", strings.Join(laneNames(), ","), "what is measured")
	emulated := flag.Bool("vm", false, "measure 1x1000 in an emulated machine that has IPVS")
	quick := flag.Bool("quick", false, "sizes 1 and 1000, short windows: to see that it works")
	flag.IntVar(&c.rounds, "rounds", 5, "windows of each lane at each size, interleaved; medians are printed")
	flag.DurationVar(&c.window, "window", time.Second, "length of one window")
	flag.DurationVar(&c.patient, "patience", 120*time.Second, "longest load of rules")
	flag.BoolVar(&c.client, "client", false, "")
	flag.Parse()
	if c.client {
		if err := serveClient(os.Stdin, os.Stdout); err != nil {
			fail(err)
		}
		return
	}
	if *quick {
		*sizes, c.rounds, c.window = "1,1000", 3, 300*time.Millisecond
	}
	for _, text := range strings.Split(*sizes, ",") {
		s, err := parseSize(text)
		if err != nil {
			fail(err)
		}
		c.sizes = append(c.sizes, s)
	}
	c.lanes = strings.Split(*lanes, ",")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	do := func() error { return run(ctx, c) }
	if *emulated {
		do = func() error { return runEmulated(ctx) }
	}
	if err := do(); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "bench/proxy-path:", err)
	os.Exit(1)
}

func run(ctx context.Context, c config) error {
	peer := ""
	if slices.ContainsFunc(c.lanes, func(l string) bool { return strings.HasPrefix(l, "kube-proxy") }) {
		var err error
		if peer, err = kubeproxy.Build(ctx); err != nil {
			return err
		}
	}
	t := table{}
	slow := map[string]bool{}
	for _, n := range c.sizes {
		if n.many() {
			slow = map[string]bool{} // another shape: nobody was slow with it yet
		}
		if err := c.measure(ctx, n, peer, slow, t); err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
		t.print(os.Stdout, n, c.lanes)
	}
	fmt.Println(t.result(c.sizes))
	return ctx.Err()
}

// measure makes a world with one node for each lane, loads n Services on each, and takes the windows in turns.
func (c config) measure(ctx context.Context, n size, peer string, slow map[string]bool, t table) error {
	w, err := newWorld(ctx, n)
	if err != nil {
		return err
	}
	defer w.close()
	for _, name := range c.lanes {
		if slow[name] {
			continue
		}
		took, err := w.add(ctx, name, peer, c.patient)
		switch {
		case err == nil:
			fmt.Fprintf(os.Stderr, "%s: %s loaded in %s\n", name, n, took.Round(time.Millisecond))
		case strings.HasPrefix(name, "kube-proxy") && took >= c.patient:
			fmt.Fprintf(os.Stderr, "%s: %s were not loaded in %s: left out from here on\n", name, n, c.patient)
			slow[name] = true
		default:
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for _, j := range jobs {
		for range c.rounds {
			for _, l := range w.lanes {
				j.For = c.window
				s, err := l.ask(j)
				if err != nil {
					return fmt.Errorf("%s: %s: %w", l.name, j.Kind, err)
				}
				t.add(n, l.name, j.name(), s)
			}
		}
	}
	return nil
}

// jobs are the kinds of windows.
var jobs = []job{
	{Kind: kindConnect, Workers: 1}, {Kind: kindConnect, Workers: 32}, {Kind: kindUDP, Workers: 1}, {Kind: kindStream, Workers: 1},
}

// job asks a client for one window.
type job struct {
	Kind    string        `json:"kind"`
	Workers int           `json:"workers"`
	For     time.Duration `json:"for"`
	To      []string      `json:"to"` // addresses, used in turns
}

func (j job) name() string { return fmt.Sprintf("%s/%d", j.Kind, j.Workers) }

// sample is what a window gave.
type sample struct {
	Error  string        `json:"error,omitempty"`
	Rate   float64       `json:"rate"` // connections, round trips, or MiB, a second
	P50    time.Duration `json:"p50"`  // of connecting
	P99    time.Duration `json:"p99"`
	CPU    time.Duration `json:"cpu"` // of the whole machine, for one of what Rate counts
	Failed int           `json:"failed"`
}

// decode reads one JSON value.
func decode[T any](d *json.Decoder) (v T, err error) {
	err = d.Decode(&v)
	return v, err
}
