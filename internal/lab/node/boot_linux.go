package node

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/pki"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
)

// Hidden subcommands of podway: a node starts as the first and becomes the second.
const (
	BootCommand = "lab-node-boot"
	InitCommand = "lab-node-init"
)

const eventsFD = 3

// Spaces are the namespaces that the process gets of its own when it is started. The network namespace is its
// starter's thread's, and the cgroup namespace it makes itself, when it is in its cgroup.
const Spaces = process.NewSpaces(unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC)

// Group is the node's control group.
func Group(h cgroup.Host, c spec.Cluster, node string) cgroup.Group {
	return h.Group(spec.CgroupName(c.Dir)).Child(node)
}

// leaf is where the node's own processes are: in version 2 a group with children holds none itself.
func leaf(g cgroup.Group) cgroup.Group {
	if g.Host.Unified {
		return g.Child("init")
	}
	return g
}

// ProcessGroup is the group of the node's own processes, pods aside in version 2.
func ProcessGroup(h cgroup.Host, c spec.Cluster, node string) cgroup.Group {
	return leaf(Group(h, c, node))
}

// settings are what the second stage knows of the first one's world.
type settings struct {
	Cluster spec.Cluster `json:"cluster"`
	Index   int          `json:"index"`
}

// Boot makes this process, which is the first one of new namespaces, into the node: group, root, name. It ends in
// Init by executing it, and returns only errors.
func Boot(dir string, index int) error {
	unix.CloseOnExec(eventsFD)
	report := &events{to: os.NewFile(eventsFD, "events")}
	err := boot(dir, index)
	report.send(Event{Error: err.Error()})
	return err
}

func boot(dir string, index int) error {
	if os.Getpid() != 1 {
		return fmt.Errorf("node: %s is started by the lab's supervisor only", BootCommand)
	}
	c, err := spec.Load(dir)
	if err != nil {
		return err
	}
	n := c.Node(index)
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the cgroup namespace is this thread's, and exec makes it the process's
	group := Group(host, c, n.Name)
	if err := enterGroup(group); err != nil {
		return err
	}
	if err := unix.Sethostname([]byte(n.Name)); err != nil {
		return fmt.Errorf("node: set name: %w", err)
	}
	files, err := readFiles(c, n)
	if err != nil {
		return err
	}
	if files[runDir+"/node.json"], err = json.Marshal(settings{Cluster: c, Index: index}); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	r := root{dir: filepath.Join(n.Dir, "root"), node: n, cluster: c, cgroups: host}
	if err := r.build(); err != nil {
		return err
	}
	if err := r.enter(); err != nil {
		return err
	}
	for path, data := range files {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return fmt.Errorf("node: %w", err)
		}
	}
	if _, err := unix.FcntlInt(eventsFD, unix.F_SETFD, 0); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	self := binDir + "/podway"
	return fmt.Errorf("node: exec %s: %w", self, unix.Exec(self, []string{"podway", InitCommand}, environment(c)))
}

// enterGroup joins the node's group, makes it the top of what the node sees, and hands its controllers down.
func enterGroup(g cgroup.Group) error {
	if err := g.Join(0); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("node: make cgroup namespace: %w", err)
	}
	if !g.Host.Unified {
		return nil
	}
	if err := leaf(g).Make(); err != nil {
		return err
	}
	if err := leaf(g).Join(0); err != nil {
		return err
	}
	return g.Delegate()
}

// readFiles reads, while the host's files are there, what the node is to have of them, by its place in the node.
func readFiles(c spec.Cluster, n spec.Node) (map[string][]byte, error) {
	snapshotter, err := snapshotterFor(n.Dir)
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{
		runDir + "/containerd.toml": []byte(containerdConfig(c.Runtime, snapshotter, !mayRaiseLimits())),
		runDir + "/kubelet.yaml":    []byte(kubeletConfig(n.Name)),
	}
	for _, f := range []string{"ca.crt", n.Name + ".crt", n.Name + ".key", n.Name + ".kubeconfig", pki.Admin + ".kubeconfig"} {
		if files[filepath.Join(pkiDir, f)], err = os.ReadFile(c.PKI(f)); err != nil {
			return nil, fmt.Errorf("node: %w", err)
		}
	}
	return files, nil
}

// snapshotterFor chooses how containerd stacks layers: overlayfs does not stack on itself, which is what the disk of
// a container is.
func snapshotterFor(dir string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return "", fmt.Errorf("node: %s: %w", dir, err)
	}
	if st.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return "native", nil
	}
	return "overlayfs", nil
}

// mayRaiseLimits says whether this process has CAP_SYS_RESOURCE.
func mayRaiseLimits() bool {
	var header = unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if unix.Capget(&header, &data[0]) != nil {
		return false
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// Path is PATH in a node.
func Path(c spec.Cluster) string {
	return binDir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:" +
		filepath.Dir(c.Runtime.Containerd) + ":" + filepath.Dir(c.Runtime.Runc)
}

// Kubeconfig is the administrator's, in a node.
const Kubeconfig = pkiDir + "/" + pki.Admin + ".kubeconfig"

func environment(c spec.Cluster) []string { return []string{"PATH=" + Path(c), "HOME=/root"} }
