package ipam

import (
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
)

// TestMain runs this program as a CNI plugin would be run, and kills it at a chosen step, when the environment says so.
func TestMain(m *testing.M) {
	dir := os.Getenv("PODWAY_IPAM_DIR")
	if dir == "" {
		os.Exit(m.Run())
	}
	at, _ := strconv.Atoi(os.Getenv("PODWAY_IPAM_STEP"))
	s, n := Open(dir), 0
	s.OnStep(func(string) {
		if n++; n == at {
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	})
	var err error
	if os.Getenv("PODWAY_IPAM_DO") == "release" {
		err = s.Release("victim", "eth0")
	} else {
		_, err = s.Reserve(of("victim"), []netip.Prefix{v4, v6}, nil)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// killed runs a reservation or a release of the container "victim" that is killed at a step; false when it had fewer.
func killed(t *testing.T, dir, do string, step int) bool {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "PODWAY_IPAM_DIR="+dir, "PODWAY_IPAM_DO="+do, "PODWAY_IPAM_STEP="+strconv.Itoa(step))
	out, err := cmd.CombinedOutput()
	if err == nil {
		return false
	}
	if ws, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !ws.Signaled() || ws.Signal() != syscall.SIGKILL {
		t.Fatalf("%s, step %d: %v\n%s", do, step, err, out)
	}
	return true
}

func TestAReservationKilledAtAnyStepLosesAndDoublesNoAddress(t *testing.T) {
	for _, do := range []string{"reserve", "release"} {
		step := 1
		for ; ; step++ {
			dir := t.TempDir()
			s := Open(dir)
			reserve(t, s, "other", v4, v6)
			if do == "release" {
				reserve(t, s, "victim", v4, v6)
			}
			if !killed(t, dir, do, step) {
				break
			}
			afterKill(t, s, fmt.Sprintf("%s killed at step %d", do, step))
		}
		if min := map[string]int{"reserve": 11, "release": 3}[do]; step <= min {
			t.Errorf("%s has only %d steps: the test does not reach all", do, step-1)
		}
	}
}

func afterKill(t *testing.T, s *Store, when string) {
	t.Helper()
	before, err := s.List()
	if err != nil {
		t.Fatalf("%s: %v", when, err)
	}
	held := map[string]string{}
	for _, r := range before {
		if r.Container != "other" && r.Container != "victim" {
			t.Errorf("%s: a reservation of nobody: %+v", when, r)
		}
		for _, a := range r.Addrs {
			held[a.String()] = r.Container
		}
	}
	for _, a := range reserve(t, s, "new", v4, v6) {
		if held[a] != "" {
			t.Errorf("%s: %s is given to new and is %s's", when, a, held[a])
		}
	}
	if got := reserve(t, s, "victim", v4, v6); len(got) != 2 {
		t.Errorf("%s: the attempt anew gave %v", when, got)
	}
	for _, c := range []string{"victim", "new", "other"} {
		if err := s.Release(c, "eth0"); err != nil {
			t.Fatalf("%s: %v", when, err)
		}
	}
	for i := range 5 { // every address can be given again
		reserve(t, s, fmt.Sprint(i), v4)
	}
	if left, _ := filepath.Glob(filepath.Join(s.dir, ".new*")); len(left) != 0 {
		t.Errorf("%s: garbage %v", when, left)
	}
}
