package cgroup

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	hybrid = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 / /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset,clone_children
40 31 0:37 / /sys/fs/cgroup/systemd rw,relatime - cgroup cgroup rw,xattr,release_agent=/lib/x,name=systemd
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw,nsdelegate
50 31 0:40 / /mnt/cgroup/pids rw - cgroup cgroup rw,pids
garbage
`
	unified = `24 22 0:21 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
`
)

func TestTreesAreReadFromTheMountTable(t *testing.T) {
	for name, tt := range map[string]struct {
		mounts string
		want   []Hierarchy
	}{
		"one tree per controller, and the newer one beside": {hybrid, []Hierarchy{
			{Mount: "/sys/fs/cgroup/cpu,cpuacct", Controllers: []string{"cpu", "cpuacct"}},
			{Mount: "/sys/fs/cgroup/cpuset", Controllers: []string{"cpuset"}},
			{Mount: "/sys/fs/cgroup/systemd", Controllers: []string{"name=systemd"}},
			{Mount: "/sys/fs/cgroup/unified", Unified: true},
		}},
		"one tree for all": {unified, []Hierarchy{{Mount: "/sys/fs/cgroup", Unified: true}}},
		"none":             {"22 27 0:21 / /proc rw - proc proc rw\n", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseMountinfo(strings.NewReader(tt.mounts), Root)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestATreeIsMountedElsewhereByItsControllers(t *testing.T) {
	for want, h := range map[string]Hierarchy{
		"cpu,cpuacct":       {Controllers: []string{"cpu", "cpuacct"}},
		"none,name=systemd": {Controllers: []string{"name=systemd"}},
	} {
		if got := h.Options(); got != want {
			t.Errorf("options %q, want %q", got, want)
		}
	}
}

func TestMissingControllersAreNamed(t *testing.T) {
	h := Host{Hierarchies: []Hierarchy{{Controllers: []string{"cpu", "cpuacct"}}, {Controllers: []string{"pids"}}}}
	if diff := cmp.Diff([]string{"memory"}, h.Missing("cpu", "memory", "pids")); diff != "" {
		t.Error(diff)
	}
}

func TestAGroupHasTheSamePathInEveryTree(t *testing.T) {
	h := Host{Hierarchies: []Hierarchy{{Mount: "/a"}, {Mount: "/b", Unified: true}}}
	g := h.Group("lab").Child("node-1")
	if got := []string{g.dir(h.Hierarchies[0]), g.unifiedDir()}; got[0] != "/a/lab/node-1" || got[1] != "/b/lab/node-1" {
		t.Errorf("folders %q", got)
	}
}
