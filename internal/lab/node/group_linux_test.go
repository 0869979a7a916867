package node

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/cgroup"
)

// enterVariable makes this test binary a process that goes into a group and says what it sees.
const enterVariable = "PODWAY_TEST_ENTER"

func TestMain(m *testing.M) {
	if group := os.Getenv(enterVariable); group != "" {
		os.Exit(enterAndTell(group))
	}
	os.Exit(m.Run())
}

// unifiedTree is the version 2 tree of this machine, which with version 1 beside it has few controllers.
func unifiedTree() (cgroup.Host, error) {
	h, err := cgroup.Detect()
	if err != nil || h.Unified {
		return h, err
	}
	for _, t := range h.Hierarchies {
		if t.Unified {
			return cgroup.Host{Unified: true, Hierarchies: []cgroup.Hierarchy{t}}, nil
		}
	}
	return h, fmt.Errorf("no version 2 tree is mounted")
}

func enterAndTell(group string) int {
	h, err := unifiedTree()
	if err == nil {
		runtime.LockOSThread()
		err = enterGroup(h.Group(group))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	b, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/cgroup", unix.Gettid()))
	fmt.Print(string(b))
	if err != nil {
		return 1
	}
	return 0
}

// In version 2 a group that hands controllers down holds no process itself: the node's own ones are one level deeper,
// and its group is the root of what it sees.
func TestANodeInAVersion2TreeSeesItsGroupAsRootAndHandsControllersDown(t *testing.T) {
	h, err := unifiedTree()
	if err != nil || os.Geteuid() != 0 {
		if os.Getenv("CI") == "true" {
			t.Fatalf("root and a version 2 tree are needed: %v", err)
		}
		t.Skipf("root and a version 2 tree are needed: %v", err)
	}
	name := fmt.Sprintf("pwnode-%d", os.Getpid())
	top := h.Group(name)
	group := top.Child("node-1")
	on, err := group.Create()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		if err := top.Remove(ctx); err != nil {
			t.Error(err)
		}
		h.Restore(on)
	})
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), enterVariable+"="+name+"/node-1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !slices.Contains(strings.Split(string(out), "\n"), "0::/init") {
		t.Errorf("the node sees itself in\n%s", out)
	}
	dir := filepath.Join(h.Hierarchies[0].Mount, name, "node-1")
	available, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	handed, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil || string(handed) != string(available) {
		t.Errorf("of %q it hands down %q: %v", available, handed, err)
	}
}
