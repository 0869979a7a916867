// Command soak sends many requests through a real cluster while its servers are replaced and its node agents are killed,
// in one mode of the service proxy: make soak MODE=nftables REQUESTS=100000. It needs root and the programs in bin/.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/podway/podway/internal/demo"
)

func main() {
	o := demo.SoakOptions{Out: os.Stdout}
	bin := flag.String("bin", "bin", "folder of podway, podway-lab, echo and pause")
	flag.StringVar(&o.Dir, "dir", "/var/lib/podway-soak", "the cluster's folder")
	flag.StringVar(&o.Mode, "mode", "nftables", "mode of the service proxy")
	flag.IntVar(&o.Requests, "requests", 100000, "requests over each of the three paths")
	flag.IntVar(&o.Rate, "rate", 400, "requests a second over each path")
	flag.DurationVar(&o.KillEvery, "kill-every", 5*time.Second, "how often the node agents are killed")
	flag.Parse()
	var err error
	if o.Podway, err = filepath.Abs(filepath.Join(*bin, "podway")); err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = demo.Soak(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}
