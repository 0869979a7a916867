package supervisor

import (
	"context"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/podway/podway/internal/lab/controlplane"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
)

// board is where everything is written down that can be asked for. Each change wakes whoever waits for one.
type board struct {
	mu      sync.Mutex
	status  Status
	changed chan struct{} // closed and replaced at every change
}

func newBoard(c spec.Cluster) *board {
	b := &board{changed: make(chan struct{})}
	b.status = Status{PID: os.Getpid(), Started: time.Now(), Cluster: c}
	for _, name := range controlplane.Components() {
		b.status.Components = append(b.status.Components, process.Status{Name: name, State: process.Stopped, Log: c.Log(name)})
	}
	for _, n := range c.AllNodes() {
		b.status.Nodes = append(b.status.Nodes, NodeStatus{Status: process.Status{Name: n.Name, State: process.Stopped}})
	}
	return b
}

func (b *board) update(f func(*Status)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(&b.status)
	b.status.Revision++
	close(b.changed)
	b.changed = make(chan struct{})
}

// read returns the status, which the caller may keep, and what is closed at the next change.
func (b *board) read() (Status, <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.status
	s.Steps = append([]Step(nil), s.Steps...)
	s.Components = append([]process.Status(nil), s.Components...)
	s.Nodes = append([]NodeStatus(nil), s.Nodes...)
	for i := range s.Nodes {
		s.Nodes[i].Services = append([]process.Status(nil), s.Nodes[i].Services...)
	}
	return s, b.changed
}

// after returns the first status that is newer than a revision; when ctx ends, the one there is.
func (b *board) after(ctx context.Context, revision int) Status {
	for {
		s, changed := b.read()
		if s.Revision > revision {
			return s
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return s
		}
	}
}

// wait waits until a status is as wanted.
func (b *board) wait(ctx context.Context, wanted func(Status) bool) error {
	for {
		s, changed := b.read()
		if wanted(s) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// step writes down something that is done; the second time it is no step on the way up any more.
func (b *board) step(name string, took time.Duration) {
	b.update(func(s *Status) {
		if s.Done(name) {
			return
		}
		at := time.Since(s.Started)
		s.Steps = append(s.Steps, Step{Name: name, At: at, Took: took})
		slog.Info("step done", "step", name, "at", at.Round(time.Millisecond))
	})
}

func (b *board) component(st process.Status) {
	b.update(func(s *Status) { s.Components = put(s.Components, st) })
	if st.State == process.Running {
		b.step(st.Name, 0)
	}
}

// node changes what is known of a node.
func (b *board) node(name string, f func(*NodeStatus)) {
	b.update(func(s *Status) {
		for i := range s.Nodes {
			if s.Nodes[i].Name == name {
				f(&s.Nodes[i])
			}
		}
	})
}

func put(all []process.Status, st process.Status) []process.Status {
	for i := range all {
		if all[i].Name == st.Name {
			all[i] = st
			return all
		}
	}
	return append(all, st)
}

func (b *board) fail(err error) {
	slog.Error("cannot go on", "error", err)
	b.update(func(s *Status) { s.Failed = err.Error() })
}
