package demo

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// user runs podway's commands as a person would.
type user struct {
	podway string
	dir    string
	out    io.Writer
}

func (u *user) say(format string, args ...any) { fmt.Fprintf(u.out, format+"\n", args...) }

func (u *user) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, u.podway, args...)
	c.Env = append(os.Environ(), "PODWAY_LAB_DIR="+u.dir, "KUBECONFIG="+filepath.Join(u.dir, "kubeconfig"))
	c.Cancel = func() error { return c.Process.Signal(os.Interrupt) }
	c.WaitDelay = 10 * time.Second
	return c
}

// show runs a command of podway with its output visible.
func (u *user) show(ctx context.Context, args ...string) error {
	c := u.command(ctx, args...)
	c.Stdout, c.Stderr = u.out, u.out
	if err := c.Run(); err != nil {
		return fmt.Errorf("podway %s: %w", join(args), err)
	}
	return nil
}

// run runs a command of podway and returns what it printed; its exit code is in the error as *exec.ExitError.
func (u *user) run(ctx context.Context, stdin []byte, args ...string) (string, error) {
	c := u.command(ctx, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), &out, &errs
	if err := c.Run(); err != nil {
		said := strings.TrimSpace(errs.String() + out.String())
		return out.String(), fmt.Errorf("podway %s: %w: %s", join(args), err, said)
	}
	return out.String(), nil
}

func (u *user) kubectl(ctx context.Context, args ...string) (string, error) {
	return u.kubectlIn(ctx, nil, args...)
}

func (u *user) kubectlIn(ctx context.Context, stdin []byte, args ...string) (string, error) {
	return u.run(ctx, stdin, append([]string{"kubectl"}, args...)...)
}

// inPod runs the echo program's client in a Pod of the demo.
func (u *user) inPod(ctx context.Context, pod string, args ...string) (string, error) {
	return u.kubectl(ctx, append([]string{"-n", namespace, "exec", pod, "--", "/echo"}, args...)...)
}

// from runs the echo program's client with the network of a node, of outside, or of the client behind it.
func (u *user) from(ctx context.Context, where string, args ...string) (string, error) {
	return u.run(ctx, nil, append([]string{"exec", where, "--", filepath.Join(filepath.Dir(u.podway), "echo")}, args...)...)
}

// exitCode is the code that a command of run ended with; -1 when it did not run.
func exitCode(err error) int {
	var e *exec.ExitError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &e):
		return e.ExitCode()
	}
	return -1
}

func join(args []string) string { return strings.Join(args, " ") }
