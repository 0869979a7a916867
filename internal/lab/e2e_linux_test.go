package lab_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab"
	"github.com/podway/podway/internal/lab/spec"
)

// rig is one lab under test, run through the program as a user runs it.
type rig struct {
	t      *testing.T
	podway string
	dir    string
}

// need fails with what the machine lacks to run a cluster.
func need(t *testing.T) (bin string) {
	if os.Getenv("PODWAY_E2E") == "" {
		t.Skip("the real cluster is tested by make e2e")
	}
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	bin = filepath.Join(root, "bin")
	var missing []string
	for _, p := range []string{"podway-lab", "pause"} {
		if _, err := os.Stat(filepath.Join(bin, p)); err != nil {
			missing = append(missing, filepath.Join(bin, p)+" (build it with `make build`)")
		}
	}
	for _, p := range []string{"containerd", "runc", "ctr"} {
		if _, err := exec.LookPath(p); err != nil {
			missing = append(missing, p+" (apt-get install containerd runc)")
		}
	}
	if os.Geteuid() != 0 {
		missing = append(missing, "root")
	}
	if len(missing) > 0 {
		t.Fatalf("a cluster on this machine needs: %s", strings.Join(missing, ", "))
	}
	return bin
}

// newRig builds podway as it is now, beside the cluster's programs.
func newRig(t *testing.T) *rig {
	bin := need(t)
	tools := t.TempDir()
	r := &rig{t: t, podway: filepath.Join(tools, "podway"), dir: filepath.Join(t.TempDir(), "lab")}
	build := exec.Command("go", "build", "-o", r.podway, "./cmd/podway")
	build.Dir, build.Env = filepath.Dir(bin), append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build podway: %v\n%s", err, out)
	}
	for _, p := range []string{"podway-lab", "pause"} {
		if err := os.Symlink(filepath.Join(bin, p), filepath.Join(tools, p)); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if out, err := r.try("down", "--delete"); err != nil {
			t.Errorf("podway down: %v\n%s", err, out)
		}
	})
	return r
}

// command makes a call of podway for this lab.
func (r *rig) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.podway, args...)
	cmd.Env = append(os.Environ(), lab.DirVariable+"="+r.dir)
	return cmd
}

func (r *rig) try(args ...string) (string, error) {
	out, err := r.command(args...).CombinedOutput()
	return string(out), err
}

func (r *rig) run(args ...string) string {
	r.t.Helper()
	out, err := r.try(args...)
	if err != nil {
		r.t.Fatalf("podway %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// network gives every node a CNI configuration, so that its kubelet calls it ready; pods of this test use the host's.
func (r *rig) network(nodes int) {
	r.t.Helper()
	const conflist = `{"cniVersion":"0.4.0","name":"test","plugins":[{"type":"loopback"}]}`
	for i := range nodes {
		dir := filepath.Join(r.dir, "nodes", fmt.Sprintf("node-%d", i+1), "cni-config", "net.d")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			r.t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "10-test.conflist"), []byte(conflist), 0o644); err != nil {
			r.t.Fatal(err)
		}
	}
}

func (r *rig) report() lab.Report {
	r.t.Helper()
	out, err := r.command("status", "--output", "json").Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	var rep lab.Report
	if err := json.Unmarshal(out, &rep); err != nil {
		r.t.Fatalf("status: %v\n%s", err, out)
	}
	return rep
}

func (r *rig) row(where, name string) lab.Row {
	r.t.Helper()
	for _, row := range r.report().Rows {
		if row.Where == where && row.Name == name {
			return row
		}
	}
	r.t.Fatalf("no process %s of %s", name, where)
	return lab.Row{}
}

// await waits until something becomes true, which takes as long as the machine is slow.
func (r *rig) await(what string, f func() bool) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 90*time.Second)
	defer cancel()
	for !f() {
		select {
		case <-ctx.Done():
			out, _ := r.try("status")
			r.t.Fatalf("never: %s\n%s", what, out)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (r *rig) apply(manifest string) {
	r.t.Helper()
	cmd := r.command("kubectl", "apply", "-f", "-")
	cmd.Stdin = strings.NewReader(manifest)
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("apply: %v\n%s", err, out)
	}
}

const pod = `
apiVersion: v1
kind: Pod
metadata: {name: %s}
spec:
  hostNetwork: true
  terminationGracePeriodSeconds: 1
  tolerations: [{operator: Exists}]
  containers: [{name: pause, image: %q}]
`

func TestAClusterOnOneMachine(t *testing.T) {
	before := look(t)
	r := newRig(t)
	r.network(2)
	t.Log(r.run("up", "--networking", "none", "--wait", "120s"))

	t.Run("its nodes are ready", func(t *testing.T) {
		r.t = t
		r.run("kubectl", "wait", "--for=condition=Ready", "node/node-1", "node/node-2", "--timeout=60s")
		if rep := r.report(); len(rep.Missing) > 0 || !rep.Running {
			t.Errorf("status: running %t, missing %q", rep.Running, rep.Missing)
		}
	})
	t.Run("it runs a pod on the host's network", func(t *testing.T) {
		r.t = t
		r.apply(fmt.Sprintf(pod, "pause", "podway.local/pause:1"))
		r.run("kubectl", "wait", "--for=condition=Ready", "pod/pause", "--timeout=60s")
	})
	t.Run("it runs a pod of an image that was made of a program", func(t *testing.T) {
		r.t = t
		r.run("image", "load", "--binary", filepath.Join(filepath.Dir(r.podway), "pause"), "--name", "podway.local/mine:1")
		r.apply(fmt.Sprintf(pod, "mine", "podway.local/mine:1"))
		r.run("kubectl", "wait", "--for=condition=Ready", "pod/mine", "--timeout=60s")
	})
	t.Run("commands run in a node, outside, and in the client's network", func(t *testing.T) { r.t = t; execs(t, r) })
	for _, p := range []struct{ where, name string }{
		{"node-1", "kubelet"}, {"node-1", "containerd"}, {lab.ControlPlane, "kube-apiserver"}, {lab.ControlPlane, "etcd"}, {"node-2", "init"},
	} {
		t.Run(p.name+" of "+p.where+" is started again after kill -9", func(t *testing.T) { r.t = t; heals(t, r, p.where, p.name) })
	}
	t.Run("up starts again after the supervisor was killed, with what was in the cluster", func(t *testing.T) {
		r.t = t
		r.run("kubectl", "create", "configmap", "kept", "--from-literal=a=b")
		kill(t, r.row(lab.ControlPlane, "supervisor").PID)
		out := r.run("up", "--wait", "120s")
		if !strings.Contains(out, "the supervisor was dead") {
			t.Errorf("up does not say what it repaired:\n%s", out)
		}
		r.run("kubectl", "get", "configmap", "kept")
	})
	t.Run("down leaves the machine as it was after everything was killed", func(t *testing.T) {
		r.t = t
		killAll(t, r)
		if out := r.run("down"); !strings.Contains(out, "no supervisor answered") {
			t.Errorf("down says: %s", out)
		}
		before.same(t, r.dir)
	})
	for _, moment := range []string{"supervisor started", "step=network", `process=node-1`, `step="node-2 containerd"`, "process=kube-scheduler"} {
		t.Run("down leaves the machine as it was after everything was killed on its way up, at "+moment, func(t *testing.T) {
			r.t = t
			interrupts(t, r, moment)
			before.same(t, r.dir)
		})
	}
	t.Run("down --delete leaves nothing", func(t *testing.T) {
		r.t = t
		r.run("down", "--delete")
		if _, err := os.Stat(r.dir); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", r.dir, err)
		}
	})
}

func execs(t *testing.T, r *rig) {
	for where, want := range map[string]string{
		"node-2":    "10.90.0.12/24",
		lab.Outside: spec.OutsideAddress + "/24",
		lab.Client:  spec.ClientAddress + "/24",
	} {
		if out := r.run("exec", where, "--", "ip", "-4", "-o", "addr", "show", "eth0"); !strings.Contains(out, want) {
			t.Errorf("%s has no address %s:\n%s", where, want, out)
		}
	}
	_, err := r.try("exec", "node-1", "--", "sh", "-c", "exit 7")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 7 {
		t.Errorf("exit 7 becomes %v", err)
	}
	// The client is routed through outside, and the nodes answer it.
	const dial = `exec 3<>/dev/tcp/10.90.0.12/10250 && echo reached`
	if out := r.run("exec", lab.Client, "--", "bash", "-c", dial); !strings.Contains(out, "reached") {
		t.Errorf("the client does not reach a node: %s", out)
	}
}

// interrupts kills `podway up` and all that it started as soon as the supervisor's log says so far, and cleans up.
func interrupts(t *testing.T, r *rig, moment string) {
	log := filepath.Join(r.dir, "log", "supervisor.log")
	if err := os.Remove(log); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	up := r.command("up")
	if err := up.Start(); err != nil {
		t.Fatal(err)
	}
	r.await(moment, func() bool { return strings.Contains(readAll(log), moment) })
	kill(t, up.Process.Pid)
	_ = up.Wait()
	killAll(t, r)
	r.run("down")
}

func heals(t *testing.T, r *rig, where, name string) {
	was := r.row(where, name)
	kill(t, was.PID)
	r.await(name+" runs again", func() bool {
		now := r.row(where, name)
		return now.State == "running" && now.PID != 0 && now.PID != was.PID
	})
	r.await("nothing is missing", func() bool { return len(r.report().Missing) == 0 })
	if now := r.row(where, name); now.Restarts == 0 || now.LastExit != "killed by SIGKILL" {
		t.Errorf("status says %d restarts, last end %q", now.Restarts, now.LastExit)
	}
	r.run("kubectl", "get", "nodes")
}

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := unix.Kill(pid, unix.SIGKILL); err != nil {
		t.Fatalf("kill %d: %v", pid, err)
	}
}
