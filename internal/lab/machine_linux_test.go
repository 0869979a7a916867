package lab_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/spec"
)

// machine is what a lab must not change of the host.
type machine struct {
	links, netns, files []string
	sysctls             map[string]string
}

// places are where a kubelet, a container runtime or a CNI plugin would leave something if it saw the host.
var places = []string{"/etc/cni", "/opt/cni", "/var/lib/kubelet", "/var/lib/containerd", "/var/lib/cni", "/var/lib/podway",
	"/run/containerd", "/run/podway", "/run/podway-lab", "/var/log/pods", "/var/log/containers", "/root/.kube"}

func look(t *testing.T) machine {
	t.Helper()
	m := machine{sysctls: map[string]string{}}
	links, err := netlink.LinkList()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range links {
		m.links = append(m.links, l.Attrs().Name)
	}
	names, _ := filepath.Glob("/run/netns/*")
	m.netns = slices.DeleteFunc(names, func(n string) bool { return strings.HasPrefix(filepath.Base(n), "pw") }) // other tests'
	for _, p := range places {
		_ = filepath.WalkDir(p, func(path string, _ fs.DirEntry, err error) error {
			if err == nil {
				m.files = append(m.files, path)
			}
			return nil
		})
	}
	for _, s := range []string{"vm/overcommit_memory", "kernel/panic", "kernel/panic_on_oops", "net/ipv4/ip_forward"} {
		m.sysctls[s] = readAll("/proc/sys/" + s)
	}
	return m
}

// same checks that nothing of the lab in dir is on the machine, and that the machine is as it was.
func (m machine) same(t *testing.T, dir string) {
	t.Helper()
	now := look(t)
	for what, pair := range map[string][2][]string{
		"network devices": {m.links, now.links}, "named network namespaces": {m.netns, now.netns}, "files": {m.files, now.files},
	} {
		if !slices.Equal(pair[0], pair[1]) {
			t.Errorf("%s before: %q\nafter: %q", what, pair[0], pair[1])
		}
	}
	for s, v := range m.sysctls {
		if now.sysctls[s] != v {
			t.Errorf("%s was %q, is %q", s, v, now.sysctls[s])
		}
	}
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	if host.Group(spec.CgroupName(dir)).Exists() {
		t.Errorf("cgroup %s is still there", spec.CgroupName(dir))
	}
	// No process of it, and no mount in any process's view: a mount namespace that lives on would hold some.
	for _, pid := range processes(t) {
		if line := strings.ReplaceAll(readAll(fmt.Sprintf("/proc/%d/cmdline", pid)), "\x00", " "); strings.Contains(line, dir+"/") {
			t.Errorf("process %d is still there: %s", pid, line)
		}
		if strings.Contains(readAll(fmt.Sprintf("/proc/%d/mountinfo", pid)), dir) {
			t.Errorf("process %d still sees a mount of %s", pid, dir)
		}
	}
}

func processes(t *testing.T) []int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil && pid != os.Getpid() {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAll ends every process of the lab at once, as a power cut would.
func killAll(t *testing.T, r *rig) {
	t.Helper()
	host, err := cgroup.Detect()
	if err != nil {
		t.Fatal(err)
	}
	group := host.Group(spec.CgroupName(r.dir))
	n := 0
	for range 100 {
		pids, err := group.Processes()
		if err != nil {
			t.Fatal(err)
		}
		if len(pids) == 0 {
			break
		}
		for _, p := range pids {
			if p == os.Getpid() {
				t.Fatal("the test itself is in the lab's cgroup")
			}
			if proc, err := os.FindProcess(p); err == nil && proc.Kill() == nil {
				n++
			}
		}
		time.Sleep(10 * time.Millisecond)
	}
	if n == 0 {
		t.Error("the lab had no process to kill")
	}
}

func readAll(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}
