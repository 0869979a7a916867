// Command dns measures podway's DNS server beside CoreDNS, with its kubernetes plugin and the Corefile of kubeadm, and beside
// knot with a static zone of the same names. podway and CoreDNS watch the same API server. Each server has one processor for
// itself, the generator and the API server another; rounds of all servers take turns and medians count. Every answer's code
// and number of records is checked. It prints a table, then RESULT.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/podway/podway/bench/dnspeer"
)

// options of the command line.
type options struct {
	rounds   int
	each     time.Duration
	rate     int
	changes  int
	cluster  dnspeer.Cluster
	scaling  bool
	profile  string
	generate string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; medians count")
	flag.DurationVar(&o.each, "for", 2*time.Second, "how long each measurement takes")
	flag.IntVar(&o.rate, "rate", 3000, "questions a second when times are measured")
	flag.IntVar(&o.changes, "changes", 100, "Service changes a second in the last measurement of a round")
	flag.IntVar(&o.cluster.Services, "services", dnspeer.Medium.Services, "Services; a multiple of 50")
	flag.IntVar(&o.cluster.Endpoints, "endpoints", dnspeer.Medium.Endpoints, "endpoints")
	flag.BoolVar(&o.scaling, "scaling", true, "measure podway with two processors too")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of podway's server to this file")
	flag.StringVar(&o.generate, "generate", "", "internal: be the generator")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "dns:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	if ours, err := dnspeer.Serve(ctx); ours {
		return err
	}
	if o.generate != "" {
		return generate(o)
	}
	if err := dnspeer.MoveAway(); err != nil {
		return err
	}
	return measure(ctx, o)
}
