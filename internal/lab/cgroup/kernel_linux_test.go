package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// trees returns the machine's trees, and beside version 1 the version 2 tree as if it were alone.
func trees(t *testing.T) map[string]Host {
	t.Helper()
	if os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatal("control groups need root")
		}
		t.Skip("control groups need root")
	}
	h, err := Detect()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Host{"as mounted": h}
	for _, tree := range h.Hierarchies {
		if tree.Unified && !h.Unified {
			out["version 2 alone"] = Host{Unified: true, Hierarchies: []Hierarchy{tree}}
		}
	}
	return out
}

func testGroup(t *testing.T, h Host) Group {
	t.Helper()
	g := h.Group(fmt.Sprintf("pwtest-%d", os.Getpid()))
	control := filepath.Join(h.Hierarchies[0].Mount, "cgroup.subtree_control")
	before, _ := words(control) // version 1 has none
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_, kill := g.Kill(ctx)
		if remove := g.Remove(ctx); kill != nil || remove != nil || g.Exists() {
			t.Errorf("left behind: %v, %v", kill, remove)
		}
		after, _ := words(control)
		h.Restore(slices.DeleteFunc(after, func(c string) bool { return slices.Contains(before, c) }))
	})
	return g
}

// sleeper starts a process with a child, both of which only a SIGKILL ends.
func sleeper(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sh", "-c", "trap '' TERM; sleep 1000 & wait; wait")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

func TestProcessesAreFoundAndKilledByTheirGroup(t *testing.T) {
	for name, h := range trees(t) {
		t.Run(name, func(t *testing.T) {
			g := testGroup(t, h)
			leaf := g.Child("node").Child("init")
			on, err := leaf.Create()
			if err != nil {
				t.Fatal(err)
			}
			defer h.Restore(on)
			cmd := sleeper(t)
			if err := leaf.Join(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			pids, err := g.Processes()
			if err != nil || !slices.Contains(pids, cmd.Process.Pid) {
				t.Fatalf("processes %v, want %d among them: %v", pids, cmd.Process.Pid, err)
			}
			go func() { _ = cmd.Wait() }()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if n, err := g.Kill(ctx); err != nil || n == 0 {
				t.Fatalf("killed %d: %v", n, err)
			}
			if pids, err := g.Processes(); err != nil || len(pids) != 0 {
				t.Errorf("after the kill: %v, %v", pids, err)
			}
			if err := g.Remove(ctx); err != nil || g.Exists() {
				t.Errorf("remove: %v, exists %t", err, g.Exists())
			}
		})
	}
}

func TestAGroupCountsAsManyProcesses(t *testing.T) {
	for name, h := range trees(t) {
		t.Run(name, func(t *testing.T) {
			g := testGroup(t, h)
			on, err := g.Create()
			if err != nil {
				t.Fatal(err)
			}
			defer h.Restore(on)
			if err := g.Weigh(7); err != nil {
				t.Fatal(err)
			}
			for _, tree := range h.Hierarchies {
				file, want := "cpu.shares", "7168"
				if tree.Unified {
					file, want = "cpu.weight", "700"
				}
				got, err := words(filepath.Join(g.dir(tree), file))
				if tree.controls("cpu") && (err != nil || len(got) != 1 || got[0] != want) {
					t.Errorf("%s is %q, want %s: %v", file, got, want, err)
				}
			}
		})
	}
}

func TestKillSparesWhomItIsTold(t *testing.T) {
	for name, h := range trees(t) {
		t.Run(name, func(t *testing.T) {
			g := testGroup(t, h)
			if _, err := g.Create(); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command("sleep", "1000")
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
			if err := g.Join(cmd.Process.Pid); err != nil {
				t.Fatal(err)
			}
			if n, err := g.Kill(t.Context(), cmd.Process.Pid); err != nil || n != 0 {
				t.Errorf("killed %d: %v", n, err)
			}
		})
	}
}

func TestWhatWasSwitchedOnInTheRootIsSwitchedOffAgain(t *testing.T) {
	for name, h := range trees(t) {
		if !h.Unified {
			continue
		}
		t.Run(name, func(t *testing.T) {
			control := filepath.Join(h.Hierarchies[0].Mount, "cgroup.subtree_control")
			before, err := os.ReadFile(control)
			if err != nil {
				t.Fatal(err)
			}
			g := testGroup(t, h)
			on, err := g.Child("node").Create()
			if err != nil {
				t.Fatal(err)
			}
			during, err := os.ReadFile(control)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range on {
				if !slices.Contains(strings.Fields(string(during)), c) {
					t.Errorf("%s is said to be on, and is not: %s", c, during)
				}
			}
			if err := g.Remove(t.Context()); err != nil {
				t.Fatal(err)
			}
			h.Restore(on)
			if after, err := os.ReadFile(control); err != nil || string(after) != string(before) {
				t.Errorf("before %q, after %q: %v", before, after, err)
			}
		})
	}
}

func TestAGroupWithProcessesHandsNothingDown(t *testing.T) {
	for name, h := range trees(t) {
		if !h.Unified || len(mustWords(t, h)) == 0 {
			continue
		}
		t.Run(name, func(t *testing.T) {
			g := testGroup(t, h)
			if _, err := g.Create(); err != nil {
				t.Fatal(err)
			}
			if err := g.Join(sleeper(t).Process.Pid); err != nil {
				t.Fatal(err)
			}
			if err := g.Delegate(); !errors.Is(err, unix.EBUSY) {
				t.Errorf("it is not said that the group has a process: %v", err)
			}
			for file, want := range map[string]string{"cgroup.subtree_control": "", "cgroup.type": "domain"} {
				if got, err := os.ReadFile(filepath.Join(g.unifiedDir(), file)); err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s is %q: %v", file, got, err)
				}
			}
		})
	}
}

func mustWords(t *testing.T, h Host) []string {
	t.Helper()
	w, err := words(filepath.Join(h.Hierarchies[0].Mount, "cgroup.controllers"))
	if err != nil {
		t.Fatal(err)
	}
	return w
}
