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
	"strconv"
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
	if err := moveAway(); err != nil {
		return err
	}
	return measure(ctx, o)
}

const moved = "PODWAY_BENCH_MOVED"

// moveAway starts this program again on the processor that is not the servers'.
func moveAway() error {
	if os.Getenv(moved) != "" {
		return nil
	}
	if dnspeer.LoadCPU() == dnspeer.CPU() {
		fmt.Println("one processor: servers and generator share it, so questions a second say little; CPU time for each does")
	}
	if _, err := exec.LookPath("unbound"); err != nil {
		return fmt.Errorf("%w: apt-get install unbound", err)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := dnspeer.First(2, append([]string{"taskset", "-c", strconv.Itoa(dnspeer.LoadCPU()), self}, os.Args[1:]...)...)
	program, err := exec.LookPath(args[0])
	if err != nil {
		return fmt.Errorf("%s is missing (package util-linux): %w", args[0], err)
	}
	return syscall.Exec(program, args, append(os.Environ(), moved+"=1"))
}
