// Package process keeps processes running: it starts them, waits until they are ready, starts them again with growing
// pauses when they end, and says at any time how they are. It does not know what they are.
package process

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// State is where a service stands.
type State string

// The states of a service.
const (
	Starting State = "starting" // runs, not ready yet
	Running  State = "running"  // ready
	Down     State = "down"     // ended, waits for its next start
	Stopped  State = "stopped"  // ended because it was told to
)

// Status is how a service is.
type Status struct {
	Name     string    `json:"name"`
	State    State     `json:"state"`
	PID      int       `json:"pid,omitempty"` // in the process namespace of whoever started it
	Restarts int       `json:"restarts"`      // starts after the first
	InRow    int       `json:"inRow"`         // ends soon after a start, one after the other; what happened before a long life does not count
	LastExit string    `json:"lastExit,omitempty"`
	LastTime time.Time `json:"lastTime,omitzero"` // of LastExit
	Log      string    `json:"log,omitempty"`     // path
}

// Process is a started process.
type Process struct {
	PID    int
	Exited <-chan string // gives how it ended, once
	Signal func(kill bool)
}

// Service is a process that is to run all the time.
type Service struct {
	Name  string
	Log   string                          // path, for Status
	Start func() (Process, error)         // starts it once
	Ready func(ctx context.Context) error // asked until it returns nil; nil: ready at once
	Grace time.Duration                   // how long it may take to end when told to; 0: it is killed

	mu      sync.Mutex
	status  Status
	changed []func(Status)
	first   chan struct{} // closed when it was ready for the first time
	once    sync.Once
}

// Pauses before a restart: they double with each end soon after a start.
const (
	minPause  = 100 * time.Millisecond
	maxPause  = 10 * time.Second
	longLife  = 10 * time.Second // after that much life the pause starts small again
	readyPoll = 50 * time.Millisecond
)

// OnChange calls f at every change of state, in order. To be called before Run.
func (s *Service) OnChange(f func(Status)) { s.changed = append(s.changed, f) }

// Status returns how it is now.
func (s *Service) Status() Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.status
	st.Name, st.Log = s.Name, s.Log
	if st.State == "" {
		st.State = Stopped
	}
	return st
}

func (s *Service) set(f func(*Status)) {
	s.mu.Lock()
	f(&s.status)
	s.mu.Unlock()
	st := s.Status()
	for _, tell := range s.changed {
		tell(st)
	}
}

func (s *Service) readyOnce() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		s.first = make(chan struct{})
	}
	return s.first
}

// WaitReady waits until it was ready for the first time.
func (s *Service) WaitReady(ctx context.Context) error {
	select {
	case <-s.readyOnce():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run keeps it running until ctx ends, then ends it and waits for that.
func (s *Service) Run(ctx context.Context) {
	pause, inRow := minPause, 0
	for starts := 0; ctx.Err() == nil; starts++ {
		began := time.Now()
		exit := s.runOnce(ctx, starts)
		if ctx.Err() != nil {
			break
		}
		if time.Since(began) >= longLife {
			pause, inRow = minPause, 0
		}
		inRow++
		slog.Warn("process ended", "process", s.Name, "exit", exit, "restart_in", pause)
		s.set(func(st *Status) {
			st.State, st.PID, st.LastExit, st.LastTime, st.InRow = Down, 0, exit, time.Now(), inRow
		})
		wait(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	s.set(func(st *Status) { st.State, st.PID = Stopped, 0 })
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// runOnce starts it and returns how it ended.
func (s *Service) runOnce(ctx context.Context, restarts int) string {
	p, err := s.Start()
	if err != nil {
		s.set(func(st *Status) { st.Restarts = restarts })
		return err.Error()
	}
	slog.Info("process started", "process", s.Name, "pid", p.PID, "restarts", restarts)
	s.set(func(st *Status) { st.State, st.PID, st.Restarts = Starting, p.PID, restarts })
	readyCtx, cancel := context.WithCancel(ctx)
	ready := make(chan struct{})
	go func() {
		defer close(ready)
		s.awaitReady(readyCtx)
	}()
	defer func() { cancel(); <-ready }()
	select {
	case exit := <-p.Exited:
		return exit
	case <-ctx.Done():
		return s.end(p)
	}
}

func (s *Service) awaitReady(ctx context.Context) {
	for s.Ready != nil {
		probe, cancel := context.WithTimeout(ctx, time.Second)
		err := s.Ready(probe)
		cancel()
		if err == nil {
			break
		}
		if wait(ctx, readyPoll); ctx.Err() != nil {
			return
		}
	}
	first := s.readyOnce()
	s.set(func(st *Status) { st.State = Running })
	s.once.Do(func() { close(first) })
}

// end asks it to end, and kills it when it does not within its grace.
func (s *Service) end(p Process) string {
	if s.Grace > 0 {
		p.Signal(false)
		t := time.NewTimer(s.Grace)
		defer t.Stop()
		select {
		case exit := <-p.Exited:
			return exit
		case <-t.C:
		}
	}
	p.Signal(true)
	return <-p.Exited
}
