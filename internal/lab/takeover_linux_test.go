package lab_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// One Service whose endpoint is in the network `outside`; both addresses are asked.
const takenService = `apiVersion: v1
kind: Service
metadata: {name: web}
spec: {type: NodePort, clusterIP: 10.96.0.50, ports: [{port: 80, nodePort: 30080}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: web-1, labels: {kubernetes.io/service-name: web}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [10.90.0.100], conditions: {ready: true}}]
`

// TestTakingOverARunningKubeProxy lets the real kube-proxy serve a node, puts podway in its place, and goes back, while a
// client asks 100 times a second.
func TestTakingOverARunningKubeProxy(t *testing.T) {
	r := newRig(t)
	echo := filepath.Join(need(t), "echo")
	r.network(1)
	r.run("up", "--nodes", "1", "--networking", "none", "--wait", "120s")
	r.apply(takenService)
	r.background("exec", "outside", "--", echo, "serve")
	for _, mode := range []string{"nftables", "iptables"} {
		t.Run("mode "+mode, func(t *testing.T) { r.t = t; takesOver(r, echo, mode) })
	}
}

func takesOver(r *rig, echo, mode string) {
	r.t.Helper()
	node := func(command string) string { r.t.Helper(); return r.run("exec", "node-1", "--", "sh", "-c", command) }
	takeover := func(command string) string {
		r.t.Helper()
		return node("podway takeover " + command + " --kubeconfig=$KUBECONFIG --hostname-override=node-1")
	}
	proxy := r.kubeProxy(mode)
	r.served(echo)
	if plan := takeover("plan"); !strings.Contains(plan, "kube-proxy: ") {
		r.t.Fatalf("kube-proxy runs and the plan does not show its rules:\n%s", plan)
	}
	report := r.load(echo, 20*time.Second)
	proxy.stop()
	if out := takeover("apply"); !strings.Contains(out, "in force and proven") {
		r.t.Errorf("apply says:\n%s", out)
	}
	if tables := r.inForce(mode); tables != "" {
		r.t.Errorf("kube-proxy's rules are still in force:\n%s", tables)
	}
	r.served(echo)
	node("podway takeover rollback")
	if r.inForce(mode) == "" {
		r.t.Error("after the rollback there are no rules of kube-proxy")
	}
	r.served(echo)
	if out := node("podway cleanup --dry-run"); strings.Contains(out, "proxy") {
		r.t.Errorf("after the rollback podway still has rules:\n%s", out)
	}
	takeover("apply --forget")
	if plan := takeover("plan"); strings.Contains(plan, "kube-proxy: ") {
		r.t.Errorf("forgotten, and still there:\n%s", plan)
	}
	r.served(echo)
	if got := <-report; got.Failed > 0 || got.Requests < 1500 {
		r.t.Errorf("of %d requests meanwhile %d failed: %v", got.Requests, got.Failed, got.Reasons)
	}
	node("podway cleanup")
}

// started is a command that runs until it is stopped.
type started struct{ cmd *exec.Cmd }

func (s started) stop() {
	_ = s.cmd.Process.Signal(os.Interrupt)
	_ = s.cmd.Wait() // it was interrupted
}

func (r *rig) background(args ...string) started {
	r.t.Helper()
	s := started{r.command(args...)}
	if err := s.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(s.stop)
	return s
}

// kubeProxy starts the real one on node-1. Settings of connection tracking are the host's there.
func (r *rig) kubeProxy(mode string) started {
	return r.background("exec", "node-1", "--", "sh", "-c", "exec podway-lab kube-proxy --proxy-mode="+mode+
		" --kubeconfig=$KUBECONFIG --hostname-override=node-1 --cluster-cidr=10.244.0.0/16"+
		" --conntrack-max-per-core=0 --conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0")
}

// served waits until both addresses of the Service answer.
func (r *rig) served(echo string) {
	r.t.Helper()
	r.await("the Service answers", func() bool {
		_, a := r.try("exec", "node-1", "--", "bash", "-c", "exec 3<>/dev/tcp/10.96.0.50/80")
		_, b := r.try("exec", "client", "--", echo, "get", "http://10.90.0.11:30080/")
		return a == nil && b == nil
	})
}

// inForce is what of kube-proxy's rules the node has that are not asleep.
func (r *rig) inForce(mode string) string {
	if mode == "iptables" {
		out := r.run("exec", "node-1", "--", "iptables-save", "-t", "nat")
		if !strings.Contains(out, "-j KUBE-SERVICES") {
			return ""
		}
		return out
	}
	out, err := r.try("exec", "node-1", "--", "nft", "list", "table", "ip", "kube-proxy")
	if err != nil || strings.Contains(out, "flags dormant") {
		return ""
	}
	return out
}

type loadReport struct {
	Requests, Failed int
	Reasons          map[string]int
}

// load asks the node port from the client for a while.
func (r *rig) load(echo string, length time.Duration) <-chan loadReport {
	done := make(chan loadReport, 1)
	cmd := r.command("exec", "client", "--", echo, "load", "-rate", "100", "-for", length.String(), "-json", "http://10.90.0.11:30080/")
	go func() {
		var report loadReport
		out, _ := cmd.Output() // what failed is in the report
		if err := json.Unmarshal(out, &report); err != nil {
			report = loadReport{Failed: -1, Reasons: map[string]int{err.Error(): 1}}
		}
		done <- report
	}()
	return done
}
