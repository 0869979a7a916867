// Command conformance runs Kubernetes' own end-to-end tests against a cluster that podway alone networks. It builds the
// tests and their images from the pinned module, starts a cluster with `podway up` under a folder of its own, runs the specs,
// takes the cluster down, keeps what came of each spec in results/MODE.json, and writes docs/conformance.md from those files.
//
// Of Kubernetes it imports nothing: it starts the tests as a program.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

// What is run when nothing else is asked for: what the network of every conformant cluster must do, and the matrix of clients
// and servers through Services.
const (
	defaultFocus = `\[sig-network\].*(\[Conformance\]|Granular Checks: Services)`
	defaultSkip  = `SCTP|\[Disruptive\]|\[Feature:IPv6DualStack\]`
)

type options struct {
	focus, skip, mode, dir, root string
	nodes, procs                 int
	keep, record, built          bool
	pageOnly                     bool
	timeout                      time.Duration
}

func main() {
	o := options{}
	flag.StringVar(&o.focus, "focus", "", "regular expression of the specs to run (default: Conformance of sig-network, and the granular checks of Services)")
	flag.StringVar(&o.skip, "skip", defaultSkip, "regular expression of the specs to leave out")
	flag.StringVar(&o.mode, "proxy-mode", "nftables", "mode of the service proxy")
	flag.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "podway-conformance"), "folder of the cluster, the images and the reports")
	flag.StringVar(&o.root, "root", "../..", "root of the repository, with bin/ built")
	flag.IntVar(&o.nodes, "nodes", 2, "nodes of the cluster")
	flag.IntVar(&o.procs, "procs", 4, "specs that run at the same time")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	flag.BoolVar(&o.record, "record", false, "with -focus: put these results in the place of those of the same specs")
	flag.BoolVar(&o.built, "built", false, "take the tests as they are in bin/, without building them")
	flag.BoolVar(&o.pageOnly, "page", false, "run nothing: write docs/conformance.md from the results that are there")
	flag.DurationVar(&o.timeout, "timeout", 90*time.Minute, "end of all patience")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := o.main(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

func (o *options) main(ctx context.Context) (err error) {
	if o.root, err = filepath.Abs(o.root); err != nil {
		return err
	}
	if o.pageOnly {
		return o.writePage()
	}
	all := o.focus == ""
	if all {
		o.focus = defaultFocus
	}
	start := time.Now()
	specs, err := o.run(ctx)
	if err != nil {
		return err
	}
	n := count(specs)
	for _, s := range specs {
		if s.Result == failed {
			fmt.Printf("FAILED %s: %s\n", s.Name, s.Why)
		}
	}
	fmt.Printf("RESULT passed=%d failed=%d skipped=%d seconds=%.0f\n", n[passed], n[failed], n[skipped], time.Since(start).Seconds())
	if all || o.record {
		if err := o.keepResults(specs, all); err != nil {
			return err
		}
	}
	if n[failed] > 0 || n[passed] == 0 {
		return errors.New("not every spec passed; the tests' log is " + o.log())
	}
	return nil
}

// keepResults writes the results' file, anew or with the given specs in the place of the same ones, and the page.
func (o *options) keepResults(specs []spec, anew bool) error {
	path := filepath.Join(o.root, "lab/conformance/results", o.mode+".json")
	r := results{Mode: o.mode}
	if !anew {
		var err error
		if r, err = readResults(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		r.Mode = o.mode
	}
	r.Nodes = o.nodes
	r.put(specs)
	if err := r.write(path); err != nil {
		return err
	}
	return o.writePage()
}

func (o *options) writePage() error {
	page, err := pageOf(filepath.Join(o.root, "lab/conformance"))
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.root, "docs/conformance.md"), []byte(page), 0o644)
}
