package cni_test

import (
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/podway/podway/internal/hop/podnet/cni"
	"github.com/podway/podway/internal/hop/podnet/podnettest"
)

// TestMain is the CNI plugin when a Runtime started this program as one; it is killed before the step that the file
// beside its configuration says.
func TestMain(m *testing.M) {
	if os.Getenv("CNI_COMMAND") == "" {
		os.Exit(m.Run())
	}
	if os.Getenv(loopbackEnv) != "" {
		os.Exit(cni.Main(cni.Loopback))
	}
	at, n := killStep(), 0
	os.Exit(cni.Run(func(string) {
		if n++; n == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}))
}

const (
	killEnv     = "PODWAY_TEST_KILL_AT"
	loopbackEnv = "PODWAY_TEST_LOOPBACK"
)

func killStep() int {
	at, _ := strconv.Atoi(os.Getenv(killEnv))
	return at
}

// killedAt runs f with plugins that are killed before their step; false when no plugin got that far.
func killedAt(t *testing.T, step int, f func() error) bool {
	t.Helper()
	os.Setenv(killEnv, strconv.Itoa(step))
	defer os.Unsetenv(killEnv)
	err := f()
	if err != nil && !strings.Contains(err.Error(), "signal: killed") && !strings.Contains(err.Error(), "netplugin failed with no error message") {
		t.Fatalf("step %d: %v", step, err)
	}
	return err != nil
}

func TestAnAddKilledAtAnyStepIsMendedByTheNextOne(t *testing.T) {
	r := node(t, "10.244.1.0/29", "fd44:1::/64")
	other, otherAddrs := r.Pod(t, "other")
	other.Serve(":8080")
	step := 1
	for ; ; step++ {
		pod := podnettest.NewHost(t, fmt.Sprintf("victim-%d", step))
		if !killedAt(t, step, func() error { _, err := r.Add(pod); return err }) {
			must(t, r.Del(pod))
			break
		}
		addrs, err := r.Add(pod)
		if err != nil {
			t.Fatalf("killed at step %d: the next ADD: %v", step, err)
		}
		works(t, fmt.Sprintf("killed at step %d", step), r, pod, addrs, otherAddrs)
		must(t, r.Del(pod))
		clean(t, step, r)
	}
	if step < 25 {
		t.Errorf("only %d steps", step)
	}
}

func TestAnAddKilledAtAnyStepIsTakenBackByDelOrGC(t *testing.T) {
	r := node(t, "10.244.1.0/29", "fd44:1::/64")
	other, otherAddrs := r.Pod(t, "other")
	other.Serve(":8080")
	for step := 1; ; step++ {
		pod := podnettest.NewHost(t, fmt.Sprintf("victim-%d", step))
		if !killedAt(t, step, func() error { _, err := r.Add(pod); return err }) {
			break
		}
		if step%2 == 0 {
			must(t, r.Del(pod))
		} else {
			must(t, r.GC(other))
		}
		clean(t, step, r)
		pod2 := podnettest.NewHost(t, "next")
		pod2.NS, pod.NS = pod.NS, pod2.NS // another sandbox in the namespace of the victim
		pod2.Links, pod2.Routes, pod.Links, pod.Routes = pod.Links, pod.Routes, pod2.Links, pod2.Routes
		addrs, err := r.Add(pod2)
		must(t, err)
		works(t, fmt.Sprintf("killed at step %d", step), r, pod2, addrs, otherAddrs)
		must(t, r.Del(pod2))
	}
}

func TestADelKilledAtAnyStepIsFinishedByTheNextOne(t *testing.T) {
	r := node(t, "10.244.1.0/29", "fd44:1::/64")
	r.Pod(t, "other")
	for step := 1; ; step++ {
		pod, _ := r.Pod(t, fmt.Sprintf("victim-%d", step))
		killed := killedAt(t, step, func() error { return r.Del(pod) })
		if killed {
			must(t, r.Del(pod))
		}
		clean(t, step, r)
		if !killed {
			break
		}
	}
}

func works(t *testing.T, when string, r *podnettest.Runtime, pod *podnettest.Host, addrs, others []netip.Addr) {
	t.Helper()
	if len(addrs) != 2 {
		t.Fatalf("%s: addresses %v", when, addrs)
	}
	for i, a := range others {
		if saw, err := pod.Call(port(a), 1); err != nil || saw != addrs[i].String() {
			t.Errorf("%s: to %s: saw %q, %v", when, a, saw, err)
		}
	}
	if err := r.Check(pod); err != nil {
		t.Errorf("%s: %v", when, err)
	}
}

// clean says whether nothing but the Pod "other" is left.
func clean(t *testing.T, step int, r *podnettest.Runtime) {
	t.Helper()
	if v := veths(t, r); len(v) != 1 {
		t.Errorf("step %d: devices %v", step, v)
	}
	if all := reservations(t, r); len(all) != 1 || all[0].Container != "other" {
		t.Errorf("step %d: reservations %+v", step, all)
	}
	routes, err := r.Node.Routes.Routes()
	if err != nil || len(routes) != 2 {
		t.Errorf("step %d: routes %v, %v", step, routes, err)
	}
}
