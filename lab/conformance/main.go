// Command conformance runs Kubernetes' own end-to-end tests against a cluster that podway alone networks, and writes what
// came of it to docs/conformance.md. It builds the tests and their images from the pinned module, starts a cluster with
// `podway up` under a folder of its own, and takes it down again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Conformance is the set that is run when nothing else is asked for: what every conformant cluster's network must do, and
// the whole matrix of clients and servers through Services.
const (
	defaultFocus = `\[sig-network\].*\[Conformance\]|Granular Checks: Services`
	defaultSkip  = `SCTP|\[Disruptive\]|\[Feature:SCTPConnectivity\]`
)

type options struct {
	focus, skip, mode, dir, report, root string
	nodes                                int
	keep                                 bool
	timeout                              time.Duration
}

func main() {
	o := options{}
	flag.StringVar(&o.focus, "focus", defaultFocus, "regular expression of the specs to run")
	flag.StringVar(&o.skip, "skip", defaultSkip, "regular expression of the specs to leave out")
	flag.StringVar(&o.mode, "proxy-mode", "", "mode of the service proxy (default: podway's)")
	flag.StringVar(&o.dir, "dir", filepath.Join(os.TempDir(), "podway-conformance"), "folder of the cluster, the images and the reports")
	flag.StringVar(&o.report, "report", "", "file to write the results to, as Markdown")
	flag.StringVar(&o.root, "root", "../..", "root of the repository, with bin/ built")
	flag.IntVar(&o.nodes, "nodes", 2, "nodes of the cluster")
	flag.BoolVar(&o.keep, "keep", false, "leave the cluster running")
	flag.DurationVar(&o.timeout, "timeout", time.Hour, "end of all patience")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	sum, err := o.run(ctx)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	fmt.Printf("RESULT passed=%d failed=%d skipped=%d seconds=%.0f\n", sum.passed, len(sum.failed), sum.skipped, sum.took.Seconds())
	if len(sum.failed) > 0 || sum.passed == 0 {
		os.Exit(1)
	}
}

// run does everything once and returns what the tests reported.
func (o *options) run(ctx context.Context) (sum summary, err error) {
	if o.root, err = filepath.Abs(o.root); err != nil {
		return sum, err
	}
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return sum, err
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"build the tests", o.build}, {"make the images", o.images}} {
		start := time.Now()
		if err := step.do(ctx); err != nil {
			return sum, fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%s: %.1fs\n", step.name, time.Since(start).Seconds())
	}
	if !o.keep {
		defer func() {
			err = errors.Join(err, o.podway(context.WithoutCancel(ctx), "down", "--delete"))
		}()
	}
	if err := o.up(ctx); err != nil {
		return sum, err
	}
	start := time.Now()
	testErr := o.test(ctx)
	sum, err = readReport(filepath.Join(o.dir, "report"))
	if err != nil {
		return sum, errors.Join(testErr, err)
	}
	sum.took = time.Since(start)
	if o.report != "" {
		err = os.WriteFile(o.report, []byte(sum.markdown(o)), 0o644)
	}
	return sum, err
}

func (o *options) up(ctx context.Context) error {
	args := []string{"up", "--nodes", fmt.Sprint(o.nodes)}
	if o.mode != "" {
		args = append(args, "--proxy-mode", o.mode)
	}
	if err := o.podway(ctx, args...); err != nil {
		return err
	}
	for _, i := range testImages {
		if err := o.podway(ctx, "image", "load", o.archive(i)); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) podway(ctx context.Context, args ...string) error {
	return o.do(ctx, o.root, append([]string{filepath.Join(o.root, "bin/podway")}, args...)...)
}

// lab is the folder of the cluster's state.
func (o *options) lab() string { return filepath.Join(o.dir, "lab") }

// do runs a program with its output on ours.
func (o *options) do(ctx context.Context, in string, argv ...string) error {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Stdout, c.Stderr = in, os.Stdout, os.Stderr
	c.Env = append(os.Environ(), "PODWAY_LAB_DIR="+o.lab(), "CGO_ENABLED=0")
	if err := c.Run(); err != nil {
		return fmt.Errorf("%s: %w", strings.Join(argv, " "), err)
	}
	return nil
}

// build compiles the tests and agnhost with the flags of the Makefile's lab build, so that they share its cache.
func (o *options) build(ctx context.Context) error {
	here := filepath.Join(o.root, "lab/conformance")
	bin := filepath.Join(o.root, "bin")
	if err := o.do(ctx, here, "go", "test", "-c", "-trimpath", "-tags", "providerless", "-ldflags", "-s -w", "-o", filepath.Join(bin, "e2e.test"), "k8s.io/kubernetes/test/e2e"); err != nil {
		return err
	}
	return o.do(ctx, here, "go", "build", "-trimpath", "-tags", "providerless", "-ldflags", "-s -w", "-o", filepath.Join(bin, "agnhost"), "k8s.io/kubernetes/test/images/agnhost")
}

// test runs the specs one after the other; its error says only that something failed, which the report says better.
func (o *options) test(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	tools := filepath.Join(o.dir, "tools") // kubectl is looked for on PATH
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return err
	}
	kubectl := filepath.Join(tools, "kubectl")
	_ = os.Remove(kubectl) // of a run before
	if err := os.Symlink(filepath.Join(o.root, "bin/podway-lab"), kubectl); err != nil {
		return err
	}
	report := filepath.Join(o.dir, "report")
	if err := os.RemoveAll(report); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, filepath.Join(o.root, "bin/e2e.test"), "--provider=skeleton", "--kubeconfig="+filepath.Join(o.lab(), "kubeconfig"),
		"--ginkgo.focus="+o.focus, "--ginkgo.skip="+o.skip, "--ginkgo.timeout="+o.timeout.String(), "--ginkgo.no-color", "--ginkgo.silence-skips",
		"--report-dir="+report, "--num-nodes="+fmt.Sprint(o.nodes), "--allowed-not-ready-nodes=0", "--disable-log-dump")
	out, err := os.Create(filepath.Join(o.dir, "e2e.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	c.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	fmt.Println("the tests write to", out.Name())
	return c.Run()
}
