package nettest

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// Process is a program that runs in a host's namespace. All its threads are there, unlike those of the caller.
type Process struct {
	Stdin  io.WriteCloser
	Stdout io.ReadCloser

	cmd    *exec.Cmd
	stderr tail
}

// Start runs a program in the host's namespace, with the caller's environment and env. It should end when its standard
// input does, so that it never outlives the caller; Stop makes it.
func (h *Host) Start(ctx context.Context, argv []string, env ...string) (*Process, error) {
	p := &Process{cmd: exec.CommandContext(ctx, argv[0], argv[1:]...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // what it started is killed with it
	p.cmd.Cancel = p.kill
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.Stderr = &p.stderr
	var err error
	if p.Stdin, err = p.cmd.StdinPipe(); err == nil {
		p.Stdout, err = p.cmd.StdoutPipe()
	}
	if err == nil {
		err = h.Do(p.cmd.Start) // a child is where the thread that forks it is
	}
	if err != nil {
		return nil, fmt.Errorf("nettest: host %s: start %s: %w", h.Name, argv[0], err)
	}
	return p, nil
}

// Stop closes the program's standard input and waits for its end, at most for grace; then it is killed.
func (p *Process) Stop(grace time.Duration) error {
	p.Stdin.Close()
	t := time.AfterFunc(grace, func() { _ = p.kill() })
	defer t.Stop()
	return p.cmd.Wait()
}

func (p *Process) kill() error { return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) }

// Stderr is the last part of what the program wrote to standard error. It is complete after Stop.
func (p *Process) Stderr() string { return p.stderr.String() }
