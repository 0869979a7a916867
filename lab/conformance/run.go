package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// run does everything once and returns what the tests reported.
func (o *options) run(ctx context.Context) (specs []spec, err error) {
	if err := os.MkdirAll(o.dir, 0o755); err != nil {
		return nil, err
	}
	if !o.keep {
		defer func() {
			err = errors.Join(err, o.podway(context.WithoutCancel(ctx), "down", "--delete"))
		}()
	}
	for _, step := range []struct {
		name string
		do   func(context.Context) error
	}{{"build the tests", o.build}, {"make the images", o.images}, {"start the cluster", o.up}} {
		start := time.Now()
		if err := step.do(ctx); err != nil {
			return nil, fmt.Errorf("%s: %w", step.name, err)
		}
		fmt.Printf("%s: %.1fs\n", step.name, time.Since(start).Seconds())
	}
	testErr := o.test(ctx)
	specs, err = readReport(o.reportDir())
	if err != nil {
		return nil, errors.Join(testErr, err)
	}
	version, err := o.version(ctx)
	if err != nil {
		return nil, err
	}
	for i := range specs {
		specs[i].Podway, specs[i].Date = version, time.Now().UTC().Format(time.DateOnly)
	}
	return specs, nil
}

// build compiles the tests, their runner and agnhost with the flags of the Makefile's lab build, so that they share its cache.
func (o *options) build(ctx context.Context) error {
	if o.built {
		return nil
	}
	flags := []string{"-trimpath", "-tags", "providerless", "-ldflags", "-s -w", "-o"}
	for _, b := range []struct{ command, name, pkg string }{
		{"build", "agnhost", "k8s.io/kubernetes/test/images/agnhost"},
		{"build", "ginkgo", "github.com/onsi/ginkgo/v2/ginkgo"},
		{"test -c -vet=off", "e2e.test", "k8s.io/kubernetes/test/e2e"},
	} {
		args := append(append([]string{"go"}, strings.Fields(b.command)...), flags...)
		if err := o.do(ctx, o.here(), append(args, o.bin(b.name), b.pkg)...); err != nil {
			return err
		}
	}
	return nil
}

func (o *options) up(ctx context.Context) error {
	if err := o.podway(ctx, "up", "--nodes", fmt.Sprint(o.nodes), "--proxy-mode", o.mode); err != nil {
		return err
	}
	for _, i := range testImages {
		if err := o.podway(ctx, "image", "load", o.archive(i)); err != nil {
			return err
		}
	}
	return nil
}

// test runs the specs; its error says only that something failed, which the report says better.
func (o *options) test(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, o.timeout+time.Minute)
	defer cancel()
	tools := filepath.Join(o.dir, "tools") // kubectl is looked for on PATH
	if err := os.MkdirAll(tools, 0o755); err != nil {
		return err
	}
	kubectl := filepath.Join(tools, "kubectl")
	_ = os.Remove(kubectl) // of a run before
	if err := os.Symlink(o.bin("podway-lab"), kubectl); err != nil {
		return err
	}
	if err := os.RemoveAll(o.reportDir()); err != nil {
		return err
	}
	c := exec.CommandContext(ctx, o.bin("ginkgo"), "--procs="+fmt.Sprint(o.procs), "--focus="+o.focus, "--skip="+o.skip,
		"--timeout="+o.timeout.String(), "--no-color", "--silence-skips", "--vv", o.bin("e2e.test"), "--",
		"--provider=skeleton", "--kubeconfig="+filepath.Join(o.lab(), "kubeconfig"), "--report-dir="+o.reportDir(),
		"--num-nodes="+fmt.Sprint(o.nodes), "--allowed-not-ready-nodes=0", "--disable-log-dump")
	// ginkgo ends the specs itself, with their cleanup.
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	out, err := os.Create(o.log())
	if err != nil {
		return err
	}
	defer out.Close()
	c.Stdout, c.Stderr = out, out
	c.Env = append(os.Environ(), "PATH="+tools+":"+os.Getenv("PATH"))
	fmt.Println("the tests write to", out.Name())
	return c.Run()
}

func (o *options) podway(ctx context.Context, args ...string) error {
	return o.do(ctx, o.root, append([]string{o.bin("podway")}, args...)...)
}

// version is what podway calls itself.
func (o *options) version(ctx context.Context) (string, error) {
	out, err := o.output(ctx, o.bin("podway"), "--version")
	return strings.TrimPrefix(out, "podway version "), err
}

// output is what a program prints.
func (o *options) output(ctx context.Context, argv ...string) (string, error) {
	c := exec.CommandContext(ctx, argv[0], argv[1:]...)
	c.Dir, c.Stderr = o.here(), os.Stderr
	out, err := c.Output()
	return strings.TrimSpace(string(out)), err
}

func (o *options) bin(name string) string { return filepath.Join(o.root, "bin", name) }
func (o *options) here() string           { return filepath.Join(o.root, "lab/conformance") }
func (o *options) log() string            { return filepath.Join(o.dir, "e2e.log") }
func (o *options) reportDir() string      { return filepath.Join(o.dir, "report") }

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
