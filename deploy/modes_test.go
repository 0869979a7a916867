package deploy

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// daemonSet finds the DaemonSet among manifests.
func daemonSet(t *testing.T, manifests []byte) appsv1.DaemonSet {
	t.Helper()
	for _, doc := range strings.Split(string(manifests), "\n---") {
		var d appsv1.DaemonSet
		if strings.Contains(doc, "kind: DaemonSet") {
			if err := yaml.UnmarshalStrict([]byte(doc), &d); err != nil {
				t.Fatal(err)
			}
			return d
		}
	}
	t.Fatal("no DaemonSet")
	return appsv1.DaemonSet{}
}

// both calls f with the DaemonSets of podway-node and podway-proxy in a mode.
func both(t *testing.T, mode string, f func(t *testing.T, pod corev1.PodSpec, all string)) {
	for name, make := range map[string]func(Options) ([]byte, error){"podway-node": Manifests, "podway-proxy": ProxyManifests} {
		t.Run(name+" in mode "+mode, func(t *testing.T) {
			b, err := make(Options{ProxyMode: mode, Image: "example/podway:3"})
			if err != nil {
				t.Fatal(err)
			}
			d := daemonSet(t, b)
			if d.Name != name {
				t.Fatalf("the DaemonSet is %s", d.Name)
			}
			f(t, d.Spec.Template.Spec, string(b))
		})
	}
}

func mounts(c corev1.Container) map[string]corev1.VolumeMount {
	out := map[string]corev1.VolumeMount{}
	for _, m := range c.VolumeMounts {
		out[m.MountPath] = m
	}
	return out
}

func TestOnlyModeEBPFHasItsRights(t *testing.T) {
	few := []corev1.Capability{"NET_ADMIN", "NET_RAW"}
	for mode, want := range map[string][]corev1.Capability{"": few, "nftables": few, "iptables": few, "ipvs": few,
		"ebpf": append(slices.Clone(few), "BPF", "SYS_ADMIN")} {
		both(t, mode, func(t *testing.T, pod corev1.PodSpec, _ string) {
			c := pod.Containers[0]
			s := c.SecurityContext
			if !slices.Equal(s.Capabilities.Add, want) || !slices.Equal(s.Capabilities.Drop, []corev1.Capability{"ALL"}) {
				t.Errorf("capabilities %v, want %v", s.Capabilities, want)
			}
			if !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || s.Privileged != nil {
				t.Errorf("security context %+v", s)
			}
			m := mounts(c)
			for _, path := range []string{"/host/cgroup", "/host/bpf", "/host/run/netns"} {
				if _, has := m[path]; has != (mode == "ebpf") {
					t.Errorf("%s is mounted: %v", path, has)
				}
			}
			if m["/run/xtables.lock"].Name == "" {
				t.Error("no lock of iptables-legacy")
			}
			used := map[string]bool{}
			for _, c := range append(pod.InitContainers, pod.Containers...) {
				for _, m := range c.VolumeMounts {
					used[m.Name] = true
				}
			}
			for _, v := range pod.Volumes {
				if !used[v.Name] {
					t.Errorf("volume %s is mounted nowhere", v.Name)
				}
			}
			if len(used) != len(pod.Volumes) {
				t.Errorf("%d volumes for %d mounted ones", len(pod.Volumes), len(used))
			}
		})
	}
}

func TestModeEBPFSeesTheNodesFileSystems(t *testing.T) {
	both(t, "ebpf", func(t *testing.T, pod corev1.PodSpec, all string) {
		paths := map[string]string{}
		for _, v := range pod.Volumes {
			if v.HostPath != nil {
				paths[v.Name] = v.HostPath.Path
			}
		}
		m := mounts(pod.Containers[0])
		for at, from := range map[string]string{"/host/cgroup": "/sys/fs/cgroup", "/host/bpf": "/sys/fs/bpf", "/host/run/netns": "/run/netns"} {
			if paths[m[at].Name] != from {
				t.Errorf("%s shows %q, want %s", at, paths[m[at].Name], from)
			}
		}
		if p := m["/host/run/netns"].MountPropagation; p == nil || *p != corev1.MountPropagationHostToContainer {
			t.Errorf("Pods that come later are not seen: %v", p)
		}
		settings := pod.InitContainers[0]
		if p := mounts(settings)["/host/sys/fs"].MountPropagation; p == nil || *p != corev1.MountPropagationBidirectional || !*settings.SecurityContext.Privileged {
			t.Errorf("a BPF file system that is mounted does not reach the node: %v", p)
		}
		if strings.Contains(all, "podway.local") || strings.Count(all, "example/podway:3") < 2 {
			t.Error("the patched manifest keeps its own image")
		}
	})
}

func TestAPatchNeedsADaemonSet(t *testing.T) {
	if _, err := patched([]byte("kind: ConfigMap\n"), []byte("spec: {}\n")); err == nil {
		t.Error("a patch of nothing is no error")
	}
}
