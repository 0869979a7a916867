package node

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/spec"
)

// root builds a node's root file system at dir and makes it the root of this mount namespace. It is a tmpfs: the
// host's programs appear in it read-only, /etc is an overlay, and what a node keeps (images, volumes, logs, CNI) lies
// in its folder. So nothing that a kubelet or a pod with a hostPath writes lands on the host.
type root struct {
	dir     string
	node    spec.Node
	cluster spec.Cluster
	cgroups cgroup.Host
}

// own are the top-level folders that a node has for itself.
var own = map[string]bool{"proc": true, "sys": true, "dev": true, "run": true, "tmp": true, "var": true, "etc": true,
	"opt": true, "mnt": true, "srv": true, "lost+found": true}

// kept are the folders that last, by their place in the node and in its folder.
var kept = map[string]string{
	"var/lib/kubelet": "kubelet", "var/lib/containerd": "containerd", "var/lib/cni": "cni-state", "var/lib/podway": "podway",
	"var/log": "log", "etc/cni": "cni-config", "opt/cni": "cni",
}

func (r root) build() error {
	if err := mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := mkdirs(r.dir); err != nil {
		return err
	}
	if err := mount("tmpfs", r.dir, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	// A recursive bind of the folder that the node's root lies in must not contain that root again.
	if err := mount("", r.dir, "", unix.MS_UNBINDABLE, ""); err != nil {
		return err
	}
	for _, step := range []func() error{r.hostFolders, r.bindable, r.etc, r.keptFolders, r.kernelFiles, r.mountCgroups, r.sysctls, r.programs} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func (r root) at(path string) string { return filepath.Join(r.dir, path) }

func (r root) hostFolders() error {
	if err := mirror("/", r.dir, own); err != nil {
		return err
	}
	for _, d := range []string{"opt", "mnt", "srv"} {
		if err := mirror("/"+d, r.at(d), map[string]bool{"cni": true}); err != nil {
			return err
		}
	}
	if err := mkdirs(r.at("tmp"), r.at("var/tmp"), r.at("var/lib"), r.at("var/cache"), r.at("var/spool"), r.at("run/lock"),
		r.at("run/netns"), r.at("run/containerd"), r.at(runDir)); err != nil {
		return err
	}
	for _, d := range []string{"tmp", "var/tmp"} {
		if err := os.Chmod(r.at(d), 0o777|os.ModeSticky); err != nil {
			return fmt.Errorf("node: %w", err)
		}
	}
	for link, to := range map[string]string{"var/run": "/run", "var/lock": "/run/lock"} {
		if err := os.Symlink(to, r.at(link)); err != nil {
			return fmt.Errorf("node: %w", err)
		}
	}
	return nil
}

// bindable ends what kept the root out of the binds of the host's folders: it is a source of mounts itself now.
func (r root) bindable() error { return mount("", r.dir, "", unix.MS_PRIVATE, "") }

// etc is the host's /etc, written to in memory, with the node's own names in it.
func (r root) etc() error {
	upper, work := r.at(runDir+"/etc/upper"), r.at(runDir+"/etc/work")
	if err := mkdirs(upper, work, r.at("etc")); err != nil {
		return err
	}
	data := "lowerdir=/etc,upperdir=" + upper + ",workdir=" + work
	if err := mount("overlay", r.at("etc"), "overlay", 0, data); err != nil {
		return fmt.Errorf("%w (the kernel's overlay module is needed)", err)
	}
	for file, text := range map[string]string{
		"hostname": r.node.Name + "\n", "hosts": hosts(r.cluster), "resolv.conf": resolvConf(r.cluster.UpstreamDNS),
	} {
		path := r.at("etc/" + file)
		_ = os.Remove(path) // often a link into the host's /run
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return fmt.Errorf("node: %w", err)
		}
	}
	return nil
}

func (r root) keptFolders() error {
	for place, name := range kept {
		// podway writes it at every start. One of a former life would call the node ready too early, and pods that
		// fail then wait for ten seconds.
		if place == "etc/cni" && r.cluster.Networking == spec.NetworkingPodway {
			continue
		}
		from, to := filepath.Join(r.node.Dir, name), r.at(place)
		if err := mkdirs(from, to); err != nil {
			return err
		}
		if err := bind(from, to); err != nil {
			return err
		}
	}
	return mkdirs(r.at("etc/cni/net.d"), r.at("opt/cni/bin"))
}

func (r root) kernelFiles() error {
	if err := mkdirs(r.at("proc"), r.at("sys"), r.at("dev")); err != nil {
		return err
	}
	if err := mount("proc", r.at("proc"), "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := mount("sysfs", r.at("sys"), "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := bind("/dev", r.at("dev")); err != nil {
		return err
	}
	// A kernel without BPF does without its file system: only an eBPF program would look for it.
	_ = unix.Mount("bpf", r.at("sys/fs/bpf"), "bpf", 0, "")
	return nil
}

// mountCgroups shows the control groups from the node's own group down. The calling thread is in the node's cgroup
// namespace already.
func (r root) mountCgroups() error {
	top := r.at(cgroup.Root)
	if r.cgroups.Unified {
		return mount("cgroup2", top, "cgroup2", 0, "")
	}
	if err := mount("tmpfs", top, "tmpfs", 0, "mode=755"); err != nil {
		return err
	}
	for _, h := range r.cgroups.Hierarchies {
		name := strings.TrimPrefix(h.Mount, cgroup.Root+"/")
		if err := mkdirs(filepath.Join(top, name)); err != nil {
			return err
		}
		fstype, options := "cgroup", h.Options()
		if h.Unified {
			fstype, options = "cgroup2", ""
		}
		if err := mount(fstype, filepath.Join(top, name), fstype, 0, options); err != nil {
			return err
		}
		for _, c := range h.Controllers { // programs look for "cpu" where "cpu,cpuacct" is mounted
			if c != name && len(h.Controllers) > 1 {
				_ = os.Symlink(name, filepath.Join(top, c))
			}
		}
	}
	return nil
}

// global are settings of the whole machine that a kubelet writes. A node gets a copy to write to.
var global = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

func (r root) sysctls() error {
	copies := r.at(runDir + "/sysctl")
	if err := mkdirs(copies); err != nil {
		return err
	}
	for _, s := range global {
		value, err := os.ReadFile("/proc/sys/" + s)
		if err != nil {
			continue // this kernel has no such setting
		}
		file := filepath.Join(copies, strings.ReplaceAll(s, "/", "_"))
		if err := os.WriteFile(file, value, 0o644); err != nil {
			return fmt.Errorf("node: %w", err)
		}
		if err := mount(file, r.at("proc/sys/"+s), "", unix.MS_BIND, ""); err != nil {
			return err
		}
	}
	return nil
}

// programs binds podway, podway-lab and the images, wherever on the host they lie.
func (r root) programs() error {
	if err := mkdirs(r.at(binDir), r.at(imagesDir), r.at(pkiDir)); err != nil {
		return err
	}
	for name, path := range map[string]string{"podway": r.cluster.Podway, "podway-lab": r.cluster.Kubernetes} {
		if err := bindFile(path, r.at(filepath.Join(binDir, name))); err != nil {
			return err
		}
	}
	if err := os.Symlink("podway-lab", r.at(binDir+"/kubectl")); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return bindReadOnly(r.cluster.Images(), r.at(imagesDir))
}

// enter makes the built root the root. The former one goes away with everything in it that was not carried over.
func (r root) enter() error {
	if err := os.Chdir(r.dir); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("node: change root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("node: leave the host's root: %w", err)
	}
	if err := os.Chdir("/"); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	// Pods with mountPropagation see mounts that appear later, and may make some: the whole tree is shared, within
	// this node.
	return mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "")
}
