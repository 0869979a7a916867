package node

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/podway/podway/internal/lab/spec"
)

func TestTheKubeletIsConfiguredForACgroupOfEitherVersionAndTheLabsNames(t *testing.T) {
	var c struct {
		Kind            string            `json:"kind"`
		FailCgroupV1    *bool             `json:"failCgroupV1"`
		CgroupDriver    string            `json:"cgroupDriver"`
		ClusterDNS      []string          `json:"clusterDNS"`
		ClusterDomain   string            `json:"clusterDomain"`
		Endpoint        string            `json:"containerRuntimeEndpoint"`
		Cert            string            `json:"tlsCertFile"`
		IPTables        *bool             `json:"makeIPTablesUtilChains"`
		EvictionHard    map[string]string `json:"evictionHard"`
		VolumePluginDir string            `json:"volumePluginDir"`
		BackOff         struct {
			Most string `json:"maxContainerRestartPeriod"`
		} `json:"crashLoopBackOff"`
	}
	if err := yaml.Unmarshal([]byte(kubeletConfig("node-7")), &c); err != nil {
		t.Fatal(err)
	}
	if c.Kind != "KubeletConfiguration" || c.FailCgroupV1 == nil || *c.FailCgroupV1 || c.CgroupDriver != "cgroupfs" {
		t.Errorf("kind %s, failCgroupV1 %v, driver %s", c.Kind, c.FailCgroupV1, c.CgroupDriver)
	}
	if len(c.ClusterDNS) != 1 || c.ClusterDNS[0] != spec.ClusterDNS || c.ClusterDomain != spec.ClusterDomain {
		t.Errorf("DNS %v, %s", c.ClusterDNS, c.ClusterDomain)
	}
	if c.Cert != "/run/podway-lab/pki/node-7.crt" || c.Endpoint != "unix:///run/containerd/containerd.sock" {
		t.Errorf("certificate %s, runtime %s", c.Cert, c.Endpoint)
	}
	if c.BackOff.Most != "1s" {
		t.Errorf("a container that ended is started after up to %s", c.BackOff.Most)
	}
	if c.IPTables == nil || *c.IPTables {
		t.Error("the kubelet writes iptables chains")
	}
	for signal, v := range c.EvictionHard {
		if v != "0%" {
			t.Errorf("pods are evicted by the host's %s of %s", signal, v)
		}
	}
	if !strings.HasPrefix(c.VolumePluginDir, "/var/lib/kubelet/") {
		t.Errorf("the kubelet makes %s, which is the host's", c.VolumePluginDir)
	}
}

func TestContainerdIsConfiguredInTheFormOfItsVersion(t *testing.T) {
	runtime := spec.Runtime{Containerd: "/usr/bin/containerd", Runc: "/opt/runc"}
	for major, want := range map[int][]string{
		1: {"version = 2", `[plugins."io.containerd.grpc.v1.cri"]`, `sandbox_image = "podway.local/pause:1"`, `bin_dir = "/opt/cni/bin"`},
		2: {"version = 3", `[plugins.'io.containerd.cri.v1.runtime']`, `sandbox = "podway.local/pause:1"`, `bin_dirs = ["/opt/cni/bin"]`},
	} {
		runtime.Major = major
		text := containerdConfig(runtime, "native", true)
		for _, w := range append(want, `conf_dir = "/etc/cni/net.d"`, "restrict_oom_score_adj = true", `snapshotter = "native"`, `BinaryName = "/opt/runc"`, "SystemdCgroup = false") {
			if !strings.Contains(text, w) {
				t.Errorf("version %d lacks %s:\n%s", major, w, text)
			}
		}
	}
}

func TestNodesKnowEachOtherByName(t *testing.T) {
	text := hosts(spec.Cluster{Nodes: 2})
	for _, w := range []string{"127.0.0.1 localhost\n", "10.90.0.11 node-1\n", "10.90.0.12 node-2\n"} {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in\n%s", w, text)
		}
	}
}

func TestWithoutAnUpstreamNobodyIsAsked(t *testing.T) {
	if text := resolvConf(""); strings.Contains(text, "nameserver ") {
		t.Errorf("somebody is asked: %s", text)
	}
	if text := resolvConf("192.0.2.53"); text != "nameserver 192.0.2.53\n" {
		t.Errorf("resolv.conf is %q", text)
	}
}

func TestEventsComeThroughAPipeLineByLine(t *testing.T) {
	var got []Event
	ReadEvents(strings.NewReader(`{"step":"containerd","took":5}
not json
{"service":{"name":"kubelet","state":"running","pid":7}}
{"error":"no overlay"}
`), func(e Event) { got = append(got, e) })
	if len(got) != 3 || got[0].Step != StepContainerd || got[1].Service.PID != 7 || got[2].Error != "no overlay" {
		t.Errorf("events %+v", got)
	}
}

func TestNodesAreInTwoZonesByTurns(t *testing.T) {
	for i, want := range []string{"zone-1", "zone-2", "zone-1"} {
		if got := zone(spec.Cluster{}.Node(i + 1)); got != want {
			t.Errorf("node-%d is in %s, want %s", i+1, got, want)
		}
	}
}
