package lab

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/lab/api"
	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/image"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

func TestContainerdsVersionIsRead(t *testing.T) {
	for text, want := range map[string]int{
		"containerd github.com/containerd/containerd 1.6.20~ds1 1.6.20~ds1-1+deb12u3":    1,
		"containerd github.com/containerd/containerd/v2 2.1.3 c787fb98911740dd3ff2d0e45": 2,
		"containerd github.com/containerd/containerd v1.7.27 05044ec0a9a75232cad458":     1,
		"containerd github.com/containerd/containerd 1.4.13~ds1":                         0,
		"containerd, some build": 0,
	} {
		got, err := containerdMajor(text)
		if got != want || (err != nil) != (want == 0) {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
}

func TestAStartKeepsWhatTheLabHadUnlessAskedOtherwise(t *testing.T) {
	dir := t.TempDir()
	c, err := resolve(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if c.Nodes != 2 || c.Networking != spec.NetworkingPodway || c.Port != DefaultPort || filepath.Base(c.Kubernetes) != "podway-lab" {
		t.Errorf("a new lab is %+v", c)
	}
	c.Nodes, c.Networking, c.ProxyMode = 5, spec.NetworkingNone, "ebpf"
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	if c, err = resolve(Options{Dir: dir}); err != nil || c.Nodes != 5 || c.Networking != spec.NetworkingNone || c.ProxyMode != "ebpf" {
		t.Errorf("the same lab again is %+v: %v", c, err)
	}
	if c, err = resolve(Options{Dir: dir, Nodes: 3, ProxyMode: "iptables"}); err != nil || c.Nodes != 3 || c.ProxyMode != "iptables" {
		t.Errorf("asked for 3 nodes and mode iptables it has %d and %s: %v", c.Nodes, c.ProxyMode, err)
	}
}

func TestARunningClusterIsNotChangedBehindItsBack(t *testing.T) {
	have := spec.Cluster{Dir: "/lab", Nodes: 2, Networking: spec.NetworkingPodway}
	for name, tt := range map[string]struct {
		asked   Options
		refused bool
	}{
		"nothing asked":    {Options{}, false},
		"the same":         {Options{Nodes: 2, Networking: spec.NetworkingPodway}, false},
		"another number":   {Options{Nodes: 3}, true},
		"other networking": {Options{Networking: spec.NetworkingNone}, true},
		"another upstream": {Options{UpstreamDNS: "192.0.2.1"}, true},
	} {
		want := have
		if tt.asked.Nodes != 0 {
			want.Nodes = tt.asked.Nodes
		}
		if tt.asked.Networking != "" {
			want.Networking = tt.asked.Networking
		}
		want.UpstreamDNS = tt.asked.UpstreamDNS
		err := sameCluster(have, want, tt.asked)
		if _, is := errors.AsType[*Misuse](err); is != tt.refused || (err != nil) != tt.refused {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatDoesNotComeUpIsShownWithTheEndOfItsLog(t *testing.T) {
	dir := t.TempDir()
	u := &up{cluster: spec.Cluster{Dir: dir, Nodes: 1}}
	log := filepath.Join(dir, "x.log")
	kubelet := u.cluster.Node(1).Log("kubelet")
	for _, f := range []string{log, kubelet} {
		if err := os.MkdirAll(filepath.Dir(f), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte("first\nunknown flag: --nonsense\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	down := process.Status{Name: "kubelet", State: process.Down, InRow: hopeless, Restarts: hopeless, LastExit: "exit status 1", Log: log}
	node := func(n supervisor.NodeStatus) supervisor.Status {
		return supervisor.Status{Cluster: u.cluster, Nodes: []supervisor.NodeStatus{n}}
	}
	young := down
	young.InRow, young.Restarts = 1, 30 // the others long ago
	for name, tt := range map[string]struct {
		status supervisor.Status
		want   []string
	}{
		"a component":            {supervisor.Status{Components: []process.Status{down}}, []string{"exit status 1", "--nonsense", log}},
		"a node":                 {node(supervisor.NodeStatus{Status: down, Error: "no overlay"}), []string{"no overlay", "--nonsense"}},
		"a process of a node":    {node(supervisor.NodeStatus{Services: []process.Status{down}}), []string{"kubelet on", "--nonsense", kubelet}},
		"the supervisor":         {supervisor.Status{Failed: "no free port"}, []string{"no free port", "podway down"}},
		"one that may yet do it": {supervisor.Status{Components: []process.Status{young}}, nil},
	} {
		err := u.trouble(tt.status)
		if (err == nil) != (tt.want == nil) {
			t.Errorf("%s: %v", name, err)
		}
		for _, w := range tt.want {
			if err != nil && !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %q lacks %q", name, err, w)
			}
		}
	}
}

func TestOnlyTheEndOfALogIsShown(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	var b bytes.Buffer
	for i := range 5000 {
		fmt.Fprintf(&b, "line %d\n", i)
	}
	if err := os.WriteFile(log, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	got := lastLines(log, 2)
	if !strings.HasSuffix(got, "    line 4998\n    line 4999") || strings.Contains(got, "line 4997") {
		t.Errorf("got %q", got)
	}
	if got := lastLines("/nonexistent", 2); got != "" {
		t.Errorf("of no file: %q", got)
	}
}

func TestPodsOfPodwaysImageAreReplacedWhenItIsBuiltAnew(t *testing.T) {
	c := spec.Cluster{Dir: t.TempDir(), Podway: "/x/podway"}
	workload := func(image string) api.Object {
		return api.Object{"kind": "DaemonSet", "spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"initContainers": []any{map[string]any{"image": image}}}}}}
	}
	stamp := func(o api.Object) any {
		stampImages(c, []api.Object{o, {"kind": "ConfigMap"}})
		return child(child(child(child(o, "spec"), "template"), "metadata"), "annotations")[imageAnnotation]
	}
	if got := stamp(workload("podway.local/podway:dev")); got != nil {
		t.Errorf("without an image the stamp is %v", got)
	}
	if err := os.MkdirAll(c.Images(), 0o755); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(c.Images(), "podway.tar")
	var stamps []any
	for i := range 2 {
		if err := os.WriteFile(archive, nil, 0o644); err != nil {
			t.Fatal(err)
		}
		built := time.Date(2026, 1, 1, 0, 0, i, 0, time.UTC)
		if err := os.Chtimes(archive, built, built); err != nil {
			t.Fatal(err)
		}
		stamps = append(stamps, stamp(workload("podway.local/podway:dev")))
	}
	if stamps[0] == nil || stamps[0] == stamps[1] {
		t.Errorf("stamps %v", stamps)
	}
	if got := stamp(workload("other/image:1")); got != nil {
		t.Errorf("another image's pod is stamped %v", got)
	}
}

func TestPodsAreReplacedWhenTheConfigurationThatTheyReadAtStartIsAnother(t *testing.T) {
	c := spec.Cluster{Dir: t.TempDir(), Podway: "/x/podway"}
	if err := os.MkdirAll(c.Images(), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.Images(), "podway.tar"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	stamp := func(mode string) any {
		pod := api.Object{"kind": "DaemonSet", "spec": map[string]any{"template": map[string]any{
			"spec": map[string]any{"containers": []any{map[string]any{"image": "podway.local/podway:dev"}}}}}}
		stampImages(c, []api.Object{pod, {"kind": "ConfigMap", "metadata": map[string]any{"name": "podway"}, "data": map[string]any{"PODWAY_PROXY_MODE": mode}}})
		return child(child(child(child(pod, "spec"), "template"), "metadata"), "annotations")[configAnnotation]
	}
	if a, b := stamp("nftables"), stamp("ebpf"); a == "" || a == b || a != stamp("nftables") {
		t.Errorf("stamps %v and %v", a, b)
	}
}

func TestWhatAProxyModeLacksIsSaidBeforeTheStart(t *testing.T) {
	one := cgroup.Host{Hierarchies: []cgroup.Hierarchy{{Mount: "/sys/fs/cgroup/cpu"}}}
	two := cgroup.Host{Unified: true}
	none := func() ([]image.File, error) { return nil, nil }
	some := func() ([]image.File, error) { return []image.File{{Name: "/usr/sbin/xtables-nft-multi"}}, nil }
	broken := func() ([]image.File, error) { return nil, errors.New("it needs libxtables.so.12") }
	for _, c := range []struct {
		mode     string
		host     cgroup.Host
		iptables func() ([]image.File, error)
		want     string
	}{
		{"", one, none, ""}, {"nftables", one, none, ""}, {"iptables", one, some, ""}, {"ebpf", two, none, ""},
		{"iptables", two, none, "install iptables"}, {"iptables", two, broken, "libxtables.so.12"},
		{"ebpf", one, some, "control groups of version 2"},
	} {
		err := errors.Join(modeNeeds(c.mode, c.host, c.iptables)...)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("mode %q: %v, want %q", c.mode, err, c.want)
		}
	}
}

func TestOnlyALabsFolderIsDeleted(t *testing.T) {
	foreign := t.TempDir()
	precious := filepath.Join(foreign, "precious")
	if err := os.WriteFile(precious, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := removeData(foreign, &out); err == nil {
		t.Error("a folder of somebody else is deleted")
	}
	if _, err := os.Stat(precious); err != nil {
		t.Error(err)
	}
	ours := filepath.Join(t.TempDir(), "lab")
	if err := os.Mkdir(ours, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := (spec.Cluster{Dir: ours}).Save(); err != nil {
		t.Fatal(err)
	}
	if err := removeData(ours, &out); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(ours); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
	if err := removeData(ours, &out); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestALoadedImageKeepsItsFile(t *testing.T) {
	a, b := archiveName("podway.local/web:1"), archiveName("podway.local/web:2")
	if a == b || a != archiveName("podway.local/web:1") || !strings.HasSuffix(a, ".tar") || strings.Contains(a, "/") {
		t.Errorf("files %q, %q", a, b)
	}
}

func TestProgramsAreFoundInThePathOfTheNode(t *testing.T) {
	if p, err := lookIn("/nonexistent:/bin", "sh"); err != nil || p != "/bin/sh" {
		t.Errorf("sh is %q: %v", p, err)
	}
	if p, err := lookIn("/bin", "./x"); err != nil || p != "./x" {
		t.Errorf("./x is %q: %v", p, err)
	}
	if _, err := lookIn("/nonexistent", "sh"); err == nil {
		t.Error("sh is found nowhere")
	}
}

func TestAProgramThatCannotBeStartedHasTheShellsCodes(t *testing.T) {
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p := place{path: "/bin"}
	for program, want := range map[string]int{"/nix": 127, "nix": 127, plain: 126} {
		_, err := p.spawn([]string{program}, nil)
		if n, ok := errors.AsType[*NotStarted](err); !ok || n.Code != want {
			t.Errorf("%s: %v, want code %d", program, err, want)
		}
	}
}

func TestAPlaceThatIsNotThereIsAWrongArgument(t *testing.T) {
	st := supervisor.Status{Nodes: []supervisor.NodeStatus{{Status: process.Status{Name: "node-1", PID: 1}}}}
	_, err := find(st, "node-9")
	if _, ok := errors.AsType[*Misuse](err); !ok || !strings.Contains(err.Error(), "node-1") {
		t.Errorf("got %v", err)
	}
}
