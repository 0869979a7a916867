package lab_test

import (
	"bytes"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/nettest/vm"
)

// guestScript is what the machine with control groups of version 2 alone runs.
const guestScript = `set -eu
export PODWAY_LAB_DIR=/var/lib/podway-lab
say() { echo "== $(cut -d' ' -f1 /proc/uptime) $*"; }
grep -q cgroup2 /proc/mounts || { echo "no cgroup version 2"; exit 1; }
for c in cpu cpuset memory pids; do grep -qw $c /sys/fs/cgroup/cgroup.controllers || { echo "version 2 has no $c"; exit 1; }; done
before="$(find /sys/fs/cgroup -type d | sort; ip -o link | cut -d: -f2)"
trouble() {
	podway status || true
	for f in $PODWAY_LAB_DIR/log/*.log $PODWAY_LAB_DIR/nodes/node-1/log/*.log; do echo "--- $f"; tail -n 25 "$f" || true; done
}
podway up --nodes 1 --wait 40m || { trouble; exit 1; }
say "up"
podway kubectl apply -f /echo.yaml
podway kubectl rollout status deployment/echo --timeout=15m || { trouble; podway kubectl describe pods; exit 1; }
say "the Deployment is ready"
ip=$(podway kubectl get service echo -o 'jsonpath={.spec.clusterIP}')
ask() { podway exec node-1 -- /usr/local/bin/echo get "http://$ip:80/" 2>/tmp/err; }
n=0
until answer=$(ask); do
	echo "exit code $?: $(cat /tmp/err)"
	n=$((n+1)); [ $n -lt 10 ] || { podway kubectl get endpointslices -o yaml; podway exec node-1 -- /bin/busybox ip route; trouble; exit 1; }
	sleep 2
done
echo "$answer"
echo "$answer" | grep -q echo-
say "a request through $ip was answered"
podway down --delete
say "down"
[ ! -e $PODWAY_LAB_DIR ] || { echo "$PODWAY_LAB_DIR is still there"; exit 1; }
after="$(find /sys/fs/cgroup -type d | sort; ip -o link | cut -d: -f2)"
[ "$before" = "$after" ] || { echo "before: $before"; echo "after: $after"; exit 1; }
if grep -l podway-lab /proc/[0-9]*/mountinfo 2>/dev/null; then echo "mounts are left"; exit 1; fi
left=$(for p in /proc/[0-9]*; do [ -e $p/exe ] && tr '\0' ' ' <$p/cmdline; done | grep -c '[c]ontainerd\|[k]ube\|[e]tcd' || true)
[ "$left" = 0 ] || { echo "$left processes are left"; ps; exit 1; }
say "nothing is left"
`

const guestManifest = `apiVersion: apps/v1
kind: Deployment
metadata: {name: echo}
spec:
  replicas: 1
  progressDeadlineSeconds: 1200
  selector: {matchLabels: {app: echo}}
  template:
    metadata: {labels: {app: echo}}
    spec:
      automountServiceAccountToken: false
      containers:
      - name: echo
        image: podway.local/echo:dev
        imagePullPolicy: IfNotPresent
        env: [{name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]
        ports: [{name: web, containerPort: 8080}]
        readinessProbe: {httpGet: {path: /readyz, port: web}, timeoutSeconds: 30}
---
apiVersion: v1
kind: Service
metadata: {name: echo}
spec: {selector: {app: echo}, ports: [{port: 80, targetPort: web}]}
`

// TestAClusterOnControlGroupsOfVersion2Alone runs podway up in a virtual machine, since most machines that tests run on
// have trees of version 1 that cannot be got rid of. The emulation takes some five minutes; PODWAY_E2E=1 asks for it.
func TestAClusterOnControlGroupsOfVersion2Alone(t *testing.T) {
	bin := need(t)
	image := filepath.Join(t.TempDir(), "disk.img")
	disk(t, bin, image)
	var out bytes.Buffer
	m := vm.Machine{Args: []string{"/bin/busybox", "sh", "/run.sh"}, Disk: image, Append: "cgroup_no_v1=all", Steady: true, MiB: 5120,
		Timeout: 75 * time.Minute, Out: io.MultiWriter(os.Stderr, &out), Console: os.Getenv("PODWAY_E2E_V2_CONSOLE")}
	code, err := m.Run(t.Context())
	if err != nil || code != 0 || !strings.Contains(out.String(), "nothing is left") {
		t.Fatalf("exit code %d, %v", code, err)
	}
}

// disk makes the root of the machine: podway's programs, the container runtime with its libraries, busybox.
func disk(t *testing.T, bin, image string) {
	t.Helper()
	root := t.TempDir()
	put := func(at, from string) {
		t.Helper()
		b, err := os.ReadFile(from)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(root+at), 0o755)
		}
		if err == nil {
			err = os.WriteFile(root+at, b, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{"podway", "podway-lab", "echo", "pause"} {
		put("/usr/local/bin/"+p, filepath.Join(bin, p))
	}
	for _, p := range []string{"containerd", "containerd-shim-runc-v2", "ctr", "runc"} {
		path, err := exec.LookPath(p)
		if err != nil {
			t.Fatal(err)
		}
		put("/usr/bin/"+p, path)
		libs, err := vm.Libraries(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range libs {
			put(l, l)
		}
	}
	put("/bin/busybox", "/bin/busybox")
	applets, err := exec.Command("/bin/busybox", "--list").Output()
	if err != nil {
		t.Fatal(err)
	}
	for a := range strings.FieldsSeq(string(applets)) {
		if a == "busybox" {
			continue
		}
		if err := os.Symlink("busybox", filepath.Join(root, "bin", a)); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range []string{"proc", "sys", "dev", "run", "tmp", "out", "root", "var/lib", "etc", "sbin", "vm", "lib/modules"} {
		if err := os.MkdirAll(filepath.Join(root, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range map[string]string{
		"run.sh": guestScript, "echo.yaml": guestManifest, "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n", "etc/group": "root:x:0:\n",
		"etc/hosts": "127.0.0.1 localhost vm\n", "etc/resolv.conf": "nameserver 127.0.0.1\n", "etc/os-release": "NAME=vm\n",
	} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(image, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(image, 6<<30); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal,^metadata_csum", "-d", root, image).CombinedOutput(); err != nil {
		t.Fatalf("mke2fs: %v\n%s", err, out)
	}
}
