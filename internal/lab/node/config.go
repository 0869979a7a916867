// Package node makes a machine out of namespaces: a root file system of its own, a cgroup, a private containerd and a
// kubelet, and a first process that keeps these two running. It knows nothing of the control plane but its address.
package node

import (
	"fmt"
	"path"
	"strings"

	"github.com/podway/podway/internal/lab/spec"
)

// Paths inside a node.
const (
	runDir         = "/run/podway-lab"
	binDir         = runDir + "/bin" // podway, podway-lab and links to the container runtime's programs
	pkiDir         = runDir + "/pki"
	imagesDir      = runDir + "/images"
	containerdSock = "/run/containerd/containerd.sock"
	pauseImage     = "podway.local/pause:1"
)

// containerdConfig renders config.toml. limited: this machine has no CAP_SYS_RESOURCE, and runc must not try to lower
// an OOM score ("can't get final child's PID").
func containerdConfig(r spec.Runtime, snapshotter string, limited bool) string {
	if r.Major >= 2 {
		return containerdV3(r, snapshotter, limited)
	}
	return fmt.Sprintf(`version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [%s]
[grpc]
  address = %q
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = %q
  restrict_oom_score_adj = %t
  max_concurrent_downloads = 3
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/opt/cni/bin"
    conf_dir = "/etc/cni/net.d"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = %q
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = %q
        SystemdCgroup = false
`, quoted(unused), containerdSock, pauseImage, limited, snapshotter, r.Runc)
}

func containerdV3(r spec.Runtime, snapshotter string, limited bool) string {
	return fmt.Sprintf(`version = 3
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [%s]
[grpc]
  address = %q
[plugins.'io.containerd.cri.v1.images']
  snapshotter = %q
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = %q
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = %t
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ["/opt/cni/bin"]
    conf_dir = "/etc/cni/net.d"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
      BinaryName = %q
      SystemdCgroup = false
`, quoted(unused), containerdSock, snapshotter, pauseImage, limited, r.Runc)
}

// unused are snapshotters that probe the host's disks for nothing.
var unused = []string{
	"io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper",
	"io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.blockfile", "io.containerd.snapshotter.v1.erofs",
}

func quoted(words []string) string {
	q := make([]string, len(words))
	for i, w := range words {
		q[i] = fmt.Sprintf("%q", w)
	}
	return strings.Join(q, ", ")
}

func kubeletConfig(name string) string {
	return fmt.Sprintf(`apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
failCgroupV1: false
cgroupDriver: cgroupfs
cgroupsPerQOS: true
enforceNodeAllocatable: [pods]
containerRuntimeEndpoint: unix://%s
authentication:
  anonymous: {enabled: false}
  webhook: {enabled: true}
  x509: {clientCAFile: %s}
authorization: {mode: Webhook}
tlsCertFile: %s
tlsPrivateKeyFile: %s
clusterDNS: [%s]
clusterDomain: %s
resolvConf: /etc/resolv.conf
failSwapOn: false
localStorageCapacityIsolation: false
imageGCHighThresholdPercent: 100
evictionHard: {memory.available: "0%%", nodefs.available: "0%%", nodefs.inodesFree: "0%%", imagefs.available: "0%%", imagefs.inodesFree: "0%%"}
nodeStatusUpdateFrequency: 5s
nodeLeaseDurationSeconds: 10
makeIPTablesUtilChains: false
crashLoopBackOff: {maxContainerRestartPeriod: 1s}
volumePluginDir: /var/lib/kubelet/volumeplugins
podLogsDir: /var/log/pods
healthzBindAddress: 127.0.0.1
healthzPort: 10248
readOnlyPort: 0
serializeImagePulls: false
`, containerdSock, path.Join(pkiDir, "ca.crt"), path.Join(pkiDir, name+".crt"), path.Join(pkiDir, name+".key"),
		spec.ClusterDNS, spec.ClusterDomain)
}

func kubeletArgs(n spec.Node) []string {
	return []string{
		"kubelet", "--config=" + runDir + "/kubelet.yaml", "--kubeconfig=" + path.Join(pkiDir, n.Name+".kubeconfig"),
		"--hostname-override=" + n.Name, "--node-ip=" + n.Address.String(), "--root-dir=/var/lib/kubelet",
		"--cert-dir=/var/lib/kubelet/pki", "--node-labels=topology.kubernetes.io/zone=" + zone(n),
	}
}

// zone puts the nodes into two zones by turns, so that what depends on them can be seen.
func zone(n spec.Node) string { return fmt.Sprintf("zone-%d", 1+(n.Address.As4()[3]+1)%2) }

// hosts is /etc/hosts: the nodes know each other by name, as machines of one network usually do.
func hosts(c spec.Cluster) string {
	var b strings.Builder
	b.WriteString("127.0.0.1 localhost\n::1 localhost\n")
	for _, n := range c.AllNodes() {
		fmt.Fprintf(&b, "%s %s\n", n.Address, n.Name)
	}
	return b.String()
}

// resolvConf is the nodes' resolver configuration. Without an upstream there is nobody to ask, and it says so.
func resolvConf(upstream string) string {
	if upstream == "" {
		return "# no upstream name server: podway up --upstream-dns ADDRESS\n"
	}
	return "nameserver " + upstream + "\n"
}
