package process

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The reaper takes every child's exit: this package's tests start processes through it alone.
func TestEndsAreDescribed(t *testing.T) {
	r := NewReaper(t.Context())
	for script, want := range map[string]string{
		"exit 0":        "ended by itself",
		"exit 3":        "exit status 3",
		"kill -TERM $$": "killed by SIGTERM",
	} {
		p, err := r.Start(Command{Path: "/bin/sh", Args: []string{"-c", script}, Log: filepath.Join(t.TempDir(), "log")})
		if err != nil {
			t.Fatal(err)
		}
		if got := <-p.Exited; got != want {
			t.Errorf("%q: %q, want %q", script, got, want)
		}
	}
}

func TestWhatAProcessSaysGoesToItsLog(t *testing.T) {
	r := NewReaper(t.Context())
	log := filepath.Join(t.TempDir(), "new", "p.log")
	for range 2 {
		if err := r.Run(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", "echo $A; echo to stderr >&2"}, Env: []string{"A=hello"}, Log: log}); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(log)
	if want := strings.Repeat("hello\nto stderr\n", 2); err != nil || string(b) != want {
		t.Errorf("log %q, want %q: %v", b, want, err)
	}
}

func TestAFailureNamesTheLog(t *testing.T) {
	r := NewReaper(t.Context())
	log := filepath.Join(t.TempDir(), "p.log")
	if err := r.Run(t.Context(), Command{Path: "/bin/sh", Args: []string{"-c", "exit 4"}, Log: log}); err == nil || !strings.Contains(err.Error(), log) {
		t.Errorf("error %v", err)
	}
	if err := r.Run(t.Context(), Command{Path: "/nonexistent", Log: log}); err == nil || !strings.Contains(err.Error(), "/nonexistent") {
		t.Errorf("error %v", err)
	}
}

func TestAProcessThatIsGivenUpIsEnded(t *testing.T) {
	r := NewReaper(t.Context())
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	began := time.Now()
	err := r.Run(ctx, Command{Path: "/bin/sh", Args: []string{"-c", "exec sleep 1000"}, Log: filepath.Join(t.TempDir(), "log")})
	if err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("a process that is given up is not ended: %v after %v", err, time.Since(began))
	}
}

func TestASignalReachesNobodyAfterTheEnd(t *testing.T) {
	r := NewReaper(t.Context())
	p, err := r.Start(Command{Path: "/bin/true", Log: filepath.Join(t.TempDir(), "log")})
	if err != nil {
		t.Fatal(err)
	}
	<-p.Exited
	r.mu.Lock()
	_, known := r.waiting[p.PID]
	r.mu.Unlock()
	if known {
		t.Error("its number may belong to another process now")
	}
	p.Signal(true) // must not kill whoever has that number
}
