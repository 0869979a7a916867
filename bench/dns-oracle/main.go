// Command dns-oracle plays random clusters on podway's DNS server and on CoreDNS side by side: both watch the same API
// server, both are asked the same random questions over real sockets, and their answers are compared as sets. A difference
// that is not in docs/differences.md by its key fails. Everything follows from the seed. Exit code: 0 nothing unexplained,
// 1 something is, 2 it could not run.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
)

type options struct {
	seed      uint64
	first     int
	cases     int
	questions int
	pods      string
	program   string
	show      int
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "of the random cases")
	flag.IntVar(&o.first, "first", 0, "number of the first case")
	flag.IntVar(&o.cases, "cases", 100, "how many cases")
	flag.IntVar(&o.questions, "questions", 200, "questions in each case")
	flag.StringVar(&o.pods, "pods", "verified", "names of Pods: disabled, insecure or verified")
	flag.StringVar(&o.program, "coredns", "", "CoreDNS; empty = build bench/coredns")
	flag.IntVar(&o.show, "show", 20, "unexplained differences to show")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	t, err := run(ctx, o)
	t.print()
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "dns-oracle:", err)
		os.Exit(2)
	case t.unexplained > 0:
		os.Exit(1)
	}
}

// tally is what came of a run.
type tally struct {
	cases, questions, unexplained int
	known                         map[string]int
}

func (t *tally) print() {
	if t == nil {
		return
	}
	var keys []string
	for k := range t.known {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	for _, k := range keys {
		fmt.Printf("%6d %s\n", t.known[k], k)
	}
	fmt.Printf("dns-oracle: %d cases, %d questions: %d differences that are not meant\n", t.cases, t.questions, t.unexplained)
}

func run(ctx context.Context, o options) (*tally, error) {
	t := &tally{known: map[string]int{}}
	w, err := open(ctx, o)
	if err != nil {
		return t, err
	}
	defer w.close()
	for n := range o.cases {
		if err := w.play(ctx, o, o.first+n, t); err != nil {
			return t, fmt.Errorf("case %d: %w", o.first+n, errors.Join(err, ctx.Err()))
		}
		t.cases++
	}
	return t, nil
}
