package supervisor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/lab/spec"
)

func TestASocketIsReachedInAFolderWithALongName(t *testing.T) {
	dir := filepath.Join(t.TempDir(), strings.Repeat("long", 40))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	remote := Connect(dir)
	if _, err := remote.Status(t.Context(), -1); !errors.Is(err, ErrGone) {
		t.Errorf("nobody listens: %v", err)
	}
	l, err := Listen(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &supervisor{board: newBoard(spec.Cluster{Dir: dir, Nodes: 1})}
	stopped := make(chan struct{})
	go s.serve(l, func() { close(stopped) })
	st, err := remote.Status(t.Context(), -1)
	if err != nil || st.PID != os.Getpid() || len(st.Nodes) != 1 {
		t.Errorf("status %+v: %v", st, err)
	}
	if err := remote.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-stopped:
	case <-time.After(10 * time.Second):
		t.Error("it was not told to stop")
	}
	l.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := Connect(dir).Status(ctx, -1); !errors.Is(err, ErrGone) {
		t.Errorf("it is closed, and its file is still there: %v", err)
	}
	if l, err = Listen(dir); err != nil { // as after a supervisor that was killed
		t.Fatal(err)
	}
	l.Close()
}

func TestASecondSupervisorIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	if err := takeLock(path); err != nil {
		t.Fatal(err)
	}
	if err := takeLock(path); err == nil {
		t.Error("two supervisors hold one lock")
	}
}

func TestASupervisorWhoseStarterIsGoneNotices(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if abandoned(w) {
		t.Error("its starter is there")
	}
	r.Close()
	if !abandoned(w) {
		t.Error("its starter is gone")
	}
}
