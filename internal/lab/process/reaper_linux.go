package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// Reaper starts processes and collects the exit of every child, also of those it did not start: the first process of a
// process namespace inherits orphans. A program with a Reaper must not use os/exec, which waits for its own children.
type Reaper struct {
	mu      sync.Mutex
	waiting map[int]chan string
}

// NewReaper starts collecting until ctx ends.
func NewReaper(ctx context.Context) *Reaper {
	r := &Reaper{waiting: map[int]chan string{}}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, unix.SIGCHLD)
	go func() {
		defer signal.Stop(signals)
		for {
			select {
			case <-signals:
				r.collect()
			case <-ctx.Done():
				return
			}
		}
	}()
	return r
}

func (r *Reaper) collect() {
	for r.collectOne() {
	}
}

// collectOne collects one child that ended and says whether to look for more. The lock makes a start and its entry in
// the table one step, and a collected process and its missing entry another.
func (r *Reaper) collectOne() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ws unix.WaitStatus
	pid, err := unix.Wait4(-1, &ws, unix.WNOHANG, nil)
	if errors.Is(err, unix.EINTR) {
		return true
	}
	if err != nil || pid <= 0 {
		return false
	}
	if c, ok := r.waiting[pid]; ok {
		c <- describe(ws)
		delete(r.waiting, pid)
	}
	return true
}

func describe(ws unix.WaitStatus) string {
	switch {
	case ws.Signaled():
		return "killed by " + unix.SignalName(ws.Signal())
	case ws.ExitStatus() == 0:
		return "ended by itself"
	default:
		return fmt.Sprintf("exit status %d", ws.ExitStatus())
	}
}

// Command is a process to start.
type Command struct {
	Path string
	Args []string // without the program's name
	Env  []string
	Log  string    // standard output and error are appended to it
	Pipe *os.File  // descriptor 3, or nil
	In   Namespace // where its thread starts it, or nil for here
	New  NewSpaces // namespaces that it gets of its own
}

// NewSpaces are clone(2) flags.
type NewSpaces uintptr

// Namespace runs a function on a thread that is somewhere else.
type Namespace interface{ Do(f func() error) error }

// Start starts a process.
func (r *Reaper) Start(c Command) (Process, error) {
	if err := os.MkdirAll(filepath.Dir(c.Log), 0o755); err != nil {
		return Process{}, fmt.Errorf("process: %w", err)
	}
	log, err := os.OpenFile(c.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return Process{}, fmt.Errorf("process: %w", err)
	}
	defer log.Close()
	null, err := os.Open(os.DevNull)
	if err != nil {
		return Process{}, fmt.Errorf("process: %w", err)
	}
	defer null.Close()
	files := []uintptr{null.Fd(), log.Fd(), log.Fd()}
	if c.Pipe != nil {
		files = append(files, c.Pipe.Fd())
	}
	attr := &syscall.ProcAttr{Env: c.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Cloneflags: uintptr(c.New)}}
	argv := append([]string{c.Path}, c.Args...)
	var p Process
	start := func() error {
		p, err = r.fork(c.Path, argv, attr)
		return err
	}
	if c.In != nil {
		err = c.In.Do(start)
	} else {
		err = start()
	}
	if err != nil {
		return Process{}, fmt.Errorf("process: start %s: %w", c.Path, err)
	}
	return p, nil
}

func (r *Reaper) fork(path string, argv []string, attr *syscall.ProcAttr) (Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pid, err := syscall.ForkExec(path, argv, attr)
	if err != nil {
		return Process{}, err
	}
	exited := make(chan string, 1)
	r.waiting[pid] = exited
	return Process{PID: pid, Exited: exited, Signal: func(kill bool) { r.signal(pid, kill) }}, nil
}

// signal reaches the process only while it is not collected: its number may belong to another one afterwards.
func (r *Reaper) signal(pid int, kill bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.waiting[pid]; !ok {
		return
	}
	sig := unix.SIGTERM
	if kill {
		sig = unix.SIGKILL
	}
	_ = unix.Kill(pid, sig)
}

// Run starts a process, waits for its end, and returns an error unless it ended well.
func (r *Reaper) Run(ctx context.Context, c Command) error {
	p, err := r.Start(c)
	if err != nil {
		return err
	}
	select {
	case exit := <-p.Exited:
		if exit != describe(0) {
			return fmt.Errorf("process: %s: %s; see %s", filepath.Base(c.Path), exit, c.Log)
		}
		return nil
	case <-ctx.Done():
		p.Signal(true)
		<-p.Exited
		return ctx.Err()
	}
}
