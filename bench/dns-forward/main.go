// Command dns-forward measures how fast names from outside the cluster are answered once they are known: podway's DNS
// server beside unbound and CoreDNS with its forward and cache plugins, all in front of one local authoritative server.
// Each server has one processor for itself, the generator (podway's own, package dnspeer) and the authoritative server
// another; the servers take turns and medians count. Every answer's code and number of records is checked. It prints a
// table for names that are asked for equally often and one for names of which few are popular, then RESULT.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
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
	names    int
	coredns  bool
	profile  string
	generate string
	serve    bool
	listen   string
	upstream string
}

func main() {
	var o options
	flag.IntVar(&o.rounds, "rounds", 5, "rounds; medians count")
	flag.DurationVar(&o.each, "for", 2*time.Second, "how long each measurement takes")
	flag.IntVar(&o.rate, "rate", 3000, "questions a second when times are measured")
	flag.IntVar(&o.names, "names", 10_000, "different names")
	flag.BoolVar(&o.coredns, "coredns", true, "measure CoreDNS too")
	flag.StringVar(&o.profile, "profile", "", "write a CPU profile of podway's server to this file")
	flag.StringVar(&o.generate, "generate", "", "internal: be the generator")
	flag.BoolVar(&o.serve, "serve", false, "internal: be podway's server")
	flag.StringVar(&o.listen, "listen", "", "internal: address of -serve")
	flag.StringVar(&o.upstream, "upstream", "", "internal: the authoritative server of -serve")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "dns-forward:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	switch {
	case o.generate != "":
		return generate(o)
	case o.serve:
		return serve(ctx, o)
	}
	if _, err := exec.LookPath("unbound"); err != nil {
		return fmt.Errorf("%w: apt-get install unbound", err)
	}
	if err := dnspeer.MoveAway(); err != nil {
		return err
	}
	return measure(ctx, o)
}
