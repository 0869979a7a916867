package scenario

import (
	"os"
	"strings"
	"testing"

	"github.com/podway/podway/internal/nettest"
)

func TestARestartIsANewProcessAndAFailureIsOne(t *testing.T) {
	nettest.Need(t)
	t.Parallel()
	f, err := Load("../../scenarios/failed-write.txtar")
	if err != nil {
		t.Fatal(err)
	}
	l, err := NewLive(KernelOptions{Program: os.Args[0], Env: []string{nodeEnv}, Without: []string{"dns"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	if err := l.Load(f); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	n := l.w.nodes["node-a"]
	v, err := n.call(request{Op: "apply", Step: 1})
	if err != nil || !strings.Contains(v.Why, "not permitted") {
		t.Errorf("a write that was to fail: said %q, %v", v.Why, err)
	}
	if v, err = n.call(request{Op: "apply", Step: 0}); err != nil || v.Why != "" {
		t.Errorf("the next write: said %q, %v", v.Why, err)
	}
	again, err := Load("../../scenarios/restart.txtar")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Load(again); err != nil {
		t.Fatal(err)
	}
	if err := l.Step(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	before, other := n.proc, l.w.nodes["node-b"].proc
	if err := l.Step(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	if n.proc == before || l.w.nodes["node-b"].proc != other {
		t.Error("not the process of node-a, and that alone, is a new one")
	}
	if _, err := n.call(request{Op: "apply", Step: 1}); err != nil {
		t.Errorf("the new process does not answer: %v", err)
	}
}
