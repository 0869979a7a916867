package supervisor

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podway/podway/internal/lab/controlplane"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
)

// running makes a board of a cluster of one node where everything runs.
func running() *board {
	b := newBoard(spec.Cluster{Dir: "/lab", Nodes: 1})
	for _, c := range controlplane.Components() {
		b.component(process.Status{Name: c, State: process.Running, PID: 1})
	}
	b.node("node-1", func(n *NodeStatus) {
		n.State, n.Images, n.Registered, n.Ready = process.Running, true, true, true
		n.Services = []process.Status{{Name: "containerd", State: process.Running}, {Name: "kubelet", State: process.Running}}
	})
	return b
}

func TestAClusterIsSettledWhenNothingIsMissing(t *testing.T) {
	for name, tt := range map[string]struct {
		change  func(*Status)
		missing string // "" for nothing
	}{
		"everything runs":             {func(*Status) {}, ""},
		"a component is down":         {func(s *Status) { s.Components[1].State, s.Components[1].LastExit = process.Down, "exit status 1" }, "kube-apiserver is down, last end: exit status 1"},
		"a component never started":   {func(s *Status) { s.Components[3].State = process.Stopped }, "kube-scheduler is stopped"},
		"a node is gone":              {func(s *Status) { s.Nodes[0].State = process.Down }, "node-1 is down"},
		"a node cannot boot":          {func(s *Status) { s.Nodes[0].State, s.Nodes[0].Error = process.Down, "no overlay" }, "node-1: no overlay"},
		"a node is not registered":    {func(s *Status) { s.Nodes[0].Registered = false }, "node-1 is not registered"},
		"an image is missing":         {func(s *Status) { s.Nodes[0].Images = false }, "node-1 does not have all images"},
		"a node is not ready":         {func(s *Status) { s.Nodes[0].Ready, s.Nodes[0].Reason = false, "no network" }, "node-1 is not ready: no network"},
		"a process of a node is down": {func(s *Status) { s.Nodes[0].Services[1].State = process.Starting }, "node-1's kubelet is starting"},
	} {
		t.Run(name, func(t *testing.T) {
			b := running()
			b.update(tt.change)
			s, _ := b.read()
			if got := s.Settled(true); got != (tt.missing == "") {
				t.Errorf("settled: %t", got)
			}
			if got := strings.Join(s.Missing(true), "; "); !strings.HasPrefix(got, tt.missing) || (got == "") != (tt.missing == "") {
				t.Errorf("missing %q, want %q", got, tt.missing)
			}
		})
	}
}

func TestWithoutAPodNetworkReadyIsNotAskedFor(t *testing.T) {
	b := running()
	b.node("node-1", func(n *NodeStatus) { n.Ready = false })
	s, _ := b.read()
	if !s.Settled(false) || len(s.Missing(false)) > 0 || s.Settled(true) {
		t.Errorf("settled %t, missing %q", s.Settled(false), s.Missing(false))
	}
}

func TestRepairsAreRemembered(t *testing.T) {
	b := running()
	b.component(process.Status{Name: controlplane.Etcd, State: process.Running, Restarts: 2, LastExit: "killed by SIGKILL"})
	s, _ := b.read()
	got := s.Restarted()
	if len(got) != 1 || !strings.HasPrefix(got[0], "etcd (restarts: 2, last end: killed by SIGKILL") {
		t.Errorf("repairs %q", got)
	}
}

func TestAStepIsWrittenDownOnce(t *testing.T) {
	b := newBoard(spec.Cluster{Nodes: 1})
	for range 2 {
		b.step("network", time.Second)
	}
	b.step("images", 0)
	s, _ := b.read()
	var names []string
	for _, st := range s.Steps {
		names = append(names, st.Name)
	}
	if diff := cmp.Diff([]string{"network", "images"}, names); diff != "" {
		t.Error(diff)
	}
}

func TestWhoeverWaitsForAChangeIsWokenByIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := running()
		now, _ := b.read()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		began := time.Now()
		time.AfterFunc(3*time.Second, func() { b.step("later", 0) })
		if s := b.after(ctx, now.Revision); !s.Done("later") || time.Since(began) != 3*time.Second {
			t.Errorf("woken after %v", time.Since(began))
		}
		if s := b.after(ctx, 1<<30); time.Since(began) != 10*time.Second || !s.Done("later") {
			t.Errorf("without a change it waits %v", time.Since(began))
		}
	})
}

func TestAStatusIsACopy(t *testing.T) {
	b := running()
	s, _ := b.read()
	s.Nodes[0].Services[0].State, s.Components[0].State = process.Down, process.Down
	if again, _ := b.read(); !again.Settled(true) {
		t.Error("a reader changed what is written down")
	}
}
