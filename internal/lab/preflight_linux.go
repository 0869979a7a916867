package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/image"
	"github.com/podway/podway/internal/lab/spec"
)

// preflight finds what the lab needs of this machine, and names everything that is missing at once, each with what to
// do about it.
func preflight(ctx context.Context, c *spec.Cluster) error {
	var missing []error
	miss := func(format string, args ...any) { missing = append(missing, fmt.Errorf(format, args...)) }
	if err := findRuntime(ctx, &c.Runtime); err != nil {
		missing = append(missing, err)
	}
	if err := executable(c.Kubernetes); err != nil {
		miss("the program of the cluster's components: %w; build it with `make build` and keep it beside podway, or name it with --kubernetes-binary", err)
	}
	if _, err := os.Stat(beside(c.Podway, "pause")); err != nil {
		miss("the program that holds a pod's namespaces: %w; build it with `make build` and keep it beside podway", err)
	}
	if c.Networking == spec.NetworkingPodway {
		if err := image.CheckStatic(c.Podway); err != nil {
			missing = append(missing, err)
		}
	}
	for _, ns := range []string{"net", "mnt", "uts", "ipc", "pid", "cgroup"} {
		if _, err := os.Stat("/proc/self/ns/" + ns); err != nil {
			miss("this kernel has no %s namespaces", ns)
		}
	}
	host, err := cgroup.Detect()
	if err != nil {
		missing = append(missing, err)
	} else if gone := host.Missing("cpu", "cpuset", "memory", "pids"); len(gone) > 0 {
		miss("the kernel's control groups lack %s, which the kubelet needs; some systems want cgroup_enable=memory on the kernel's command line",
			strings.Join(gone, ", "))
	}
	missing = append(missing, modeNeeds(c.ProxyMode, host, image.IPTables)...)
	if len(missing) > 0 {
		return fmt.Errorf("lab: this machine cannot run a cluster yet:\n%w", errors.Join(missing...))
	}
	return nil
}

// modeNeeds is what this machine lacks for a mode of the service proxy.
func modeNeeds(mode string, host cgroup.Host, iptables func() ([]image.File, error)) (missing []error) {
	switch mode {
	case "iptables":
		tools, err := iptables()
		if err != nil {
			return []error{fmt.Errorf("proxy mode iptables: %w", err)}
		}
		if len(tools) == 0 {
			return []error{errors.New("proxy mode iptables puts this machine's iptables into podway's image, and there is none; " +
				"install iptables: apt-get install iptables (or dnf install iptables-nft, apk add iptables)")}
		}
	case "ebpf":
		if b, err := os.ReadFile("/proc/filesystems"); err == nil && !slices.Contains(strings.Fields(string(b)), "bpf") {
			missing = append(missing, errors.New("proxy mode ebpf: this kernel has no BPF file system (CONFIG_BPF_SYSCALL)"))
		}
		if !host.Unified && !slices.ContainsFunc(host.Hierarchies, func(h cgroup.Hierarchy) bool { return h.Unified }) {
			missing = append(missing, errors.New("proxy mode ebpf: no control groups of version 2 are mounted; beside version 1: "+
				"mkdir /sys/fs/cgroup/unified && mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified"))
		}
	}
	return missing
}

func executable(path string) error {
	if st, err := os.Stat(path); err != nil {
		return err
	} else if st.IsDir() {
		return fmt.Errorf("%s is a folder", path)
	}
	if err := unix.Access(path, unix.X_OK); err != nil {
		return fmt.Errorf("%s cannot be executed: %w", path, err)
	}
	return nil
}

var versionPattern = regexp.MustCompile(`\bv?(\d+)\.(\d+)\.\d+`)

// findRuntime finds containerd, ctr and runc, also where a user's PATH does not lead.
func findRuntime(ctx context.Context, r *spec.Runtime) error {
	var gone []string
	for name, to := range map[string]*string{"containerd": &r.Containerd, "ctr": &r.Ctr, "runc": &r.Runc} {
		if *to = lookPath(name); *to == "" {
			gone = append(gone, name)
		}
	}
	if len(gone) > 0 {
		slices.Sort(gone)
		return fmt.Errorf("not found: %s; install the container runtime: apt-get install containerd runc (or dnf install containerd runc)",
			strings.Join(gone, ", "))
	}
	out, err := exec.CommandContext(ctx, r.Containerd, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", r.Containerd, err)
	}
	r.Major, err = containerdMajor(string(out))
	return err
}

// containerdMajor reads `containerd github.com/containerd/containerd 1.6.20~ds1 ...`.
func containerdMajor(version string) (int, error) {
	m := versionPattern.FindStringSubmatch(version)
	if m == nil {
		return 0, fmt.Errorf("containerd says no version: %q", strings.TrimSpace(version))
	}
	major, _ := strconv.Atoi(m[1]) // digits, by the pattern
	minor, _ := strconv.Atoi(m[2])
	if major < 1 || (major == 1 && minor < 6) {
		return 0, fmt.Errorf("containerd %s is too old: 1.6 or newer is needed", m[0])
	}
	return major, nil
}

func lookPath(name string) string {
	if p, err := exec.LookPath(name); err == nil {
		if abs, err := filepath.Abs(p); err == nil {
			return abs
		}
	}
	for _, dir := range []string{"/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"} {
		if p := filepath.Join(dir, name); executable(p) == nil {
			return p
		}
	}
	return ""
}
