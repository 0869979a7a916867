package demo

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestTheRealCluster starts a cluster, sends requests through every path, breaks things and mends them, rolls an update
// under load, and tears down. It runs with PODWAY_E2E=1 (make e2e), as root, with the programs in bin/.
func TestTheRealCluster(t *testing.T) {
	if os.Getenv("PODWAY_E2E") == "" {
		t.Skip("the real cluster is tested by make e2e")
	}
	u := newUser(t)
	ctx, stop := context.WithTimeout(t.Context(), 20*time.Minute)
	defer stop()
	t.Cleanup(func() {
		if err := u.show(context.Background(), "down", "--delete"); err != nil {
			t.Errorf("tear down: %v", err)
		}
		if _, err := os.Stat(u.dir); err == nil {
			t.Errorf("%s is still there after down --delete", u.dir)
		}
	})
	start := time.Now()
	if err := u.show(ctx, "up", "--nodes", "2"); err != nil {
		t.Fatal(err)
	}
	t.Logf("RESULT up_s=%.1f", time.Since(start).Seconds())
	w, err := prepare(ctx, u)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range paths() {
		t.Run(p.name, func(t *testing.T) {
			got, err := w.try(ctx, p)
			if err != nil {
				t.Fatal(err)
			}
			t.Log(got)
		})
	}
	t.Run("the traces are whole", func(t *testing.T) {
		if err := w.printTraces(ctx); err != nil {
			t.Fatal(err)
		}
	})
	t.Run("an unready Pod leaves and comes back", func(t *testing.T) { unready(ctx, t, w) })
	t.Run("Ready to first answer on the other node", func(t *testing.T) { readyToAnswer(ctx, t, w) })
	t.Run("a rolling update loses nothing", func(t *testing.T) { rollingUpdate(ctx, t, w) })
	for _, f := range faults() {
		t.Run("trace names the fault: "+f.name, func(t *testing.T) { f.test(ctx, t, w) })
	}
	t.Run("all paths work after all that", func(t *testing.T) {
		if err := w.readPods(ctx); err != nil {
			t.Fatal(err)
		}
		for _, p := range paths() {
			if _, err := w.try(ctx, p); err != nil {
				t.Errorf("%s: %v", p.name, err)
			}
		}
	})
	t.Run("memory and processor time of podway's own processes", func(t *testing.T) { ownCost(t, u) })
	t.Run("a killed agent comes back and nothing is lost meanwhile", func(t *testing.T) { killedAgent(ctx, t, w) })
	for _, mode := range []string{"iptables", "ebpf", "nftables"} {
		t.Run("the cluster goes over to mode "+mode, func(t *testing.T) { changeMode(ctx, t, w, mode) })
	}
	t.Run("servers are replaced and agents killed under load", func(t *testing.T) { shortSoak(ctx, t, u) })
}

func newUser(t *testing.T) *user {
	t.Helper()
	bin, err := filepath.Abs("../../bin")
	if err != nil {
		t.Fatal(err)
	}
	if from := os.Getenv("PODWAY_BIN"); from != "" {
		bin = from
	}
	for _, p := range []string{"podway", "podway-lab", "echo", "pause"} {
		if _, err := os.Stat(filepath.Join(bin, p)); err != nil {
			t.Fatalf("%v; run make build first", err)
		}
	}
	return &user{podway: filepath.Join(bin, "podway"), dir: filepath.Join(t.TempDir(), "lab"), out: writer{t}}
}

// writer sends the demo's output to the test's log.
type writer struct{ t *testing.T }

func (w writer) Write(b []byte) (int, error) {
	w.t.Log(strings.TrimRight(string(b), "\n"))
	return len(b), nil
}

// eventually tries until f succeeds or the time is over.
func eventually(ctx context.Context, within time.Duration, f func() error) (err error) {
	for deadline := time.Now().Add(within); ; {
		if err = f(); err == nil || time.Now().After(deadline) || ctx.Err() != nil {
			return err
		}
		time.Sleep(100 * time.Millisecond)
	}
}
