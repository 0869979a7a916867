package lab

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"

	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

// startSupervisor starts the daemon and returns when it answers.
func startSupervisor(ctx context.Context, c spec.Cluster) error {
	if err := keepOldLogs(filepath.Dir(c.Log("supervisor"))); err != nil {
		return err
	}
	log, err := os.OpenFile(c.Log("supervisor"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer log.Close()
	r, w, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer r.Close()
	cmd := exec.Command("/proc/self/exe", supervisor.Command, c.Dir)
	cmd.Args[0] = "podway"
	cmd.Dir = "/"
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{w}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		w.Close()
		return fmt.Errorf("lab: start supervisor: %w", err)
	}
	w.Close()
	go func() { _ = cmd.Wait() }() // it may end before we do
	stop := context.AfterFunc(ctx, func() { r.Close() })
	defer stop()
	text, err := io.ReadAll(r)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		return fmt.Errorf("lab: start supervisor: %w", err)
	}
	if len(text) > 0 {
		return errors.New(string(text))
	}
	return nil
}

// keepOldLogs moves the logs of the former start aside; one generation is kept.
func keepOldLogs(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	logs, err := filepath.Glob(filepath.Join(dir, "*.log"))
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	for _, l := range logs {
		if err := os.Rename(l, l+".old"); err != nil {
			return fmt.Errorf("lab: %w", err)
		}
	}
	return nil
}
