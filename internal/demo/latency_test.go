package demo

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/kernel/netns"
)

const latencyRounds = 20

// readyToAnswer measures from the moment a watch says that a Pod is Ready to the first answer of its Service on the
// other node: slice written, rules programmed, packet through. The readiness of solo is switched off and on.
func readyToAnswer(ctx context.Context, t *testing.T, w *world) {
	node := w.otherNode(w.solo)
	ns := nodeNetwork(t, w.user, node)
	defer ns.Close()
	ip, err := w.user.kubectl(ctx, "-n", namespace, "get", "service", "solo", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		t.Fatal(err)
	}
	readyAt, stop := watchReady(ctx, t, w)
	defer stop()
	var took []time.Duration
	for range latencyRounds {
		if _, err := w.user.inPod(ctx, w.solo.Name, "ready", "off"); err != nil {
			t.Fatal(err)
		}
		if err := eventually(ctx, 20*time.Second, func() error { return refused(ns, ip) }); err != nil {
			t.Fatal(err)
		}
		drain(readyAt)
		if _, err := w.user.inPod(ctx, w.solo.Name, "ready", "on"); err != nil {
			t.Fatal(err)
		}
		first := firstAnswer(ctx, t, ns, ip)
		select {
		case at := <-readyAt:
			took = append(took, max(first.Sub(at), 0))
		case <-time.After(20 * time.Second):
			t.Fatal("no Ready event")
		}
	}
	slices.Sort(took)
	p50, worst := took[len(took)/2], took[len(took)-1]
	t.Logf("RESULT ready_to_answer_ms_p50=%.1f ready_to_answer_ms_max=%.1f rounds=%d", ms(p50), ms(worst), len(took))
	if p50 > 200*time.Millisecond {
		t.Errorf("the median is %s, want at most 200 ms", p50)
	}
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// nodeNetwork opens a node's network namespace by the process that podway status names.
func nodeNetwork(t *testing.T, u *user, node string) *netns.NS {
	t.Helper()
	pids, err := u.kubelets(t.Context())
	if err != nil || pids[node] == 0 {
		t.Fatalf("no kubelet on %s: %v, %v", node, pids, err)
	}
	ns, err := netns.Open(fmt.Sprintf("/proc/%d/ns/net", pids[node]))
	if err != nil {
		t.Fatal(err)
	}
	return ns
}

// watchReady sends the time of each event in which the solo Pod becomes Ready.
func watchReady(ctx context.Context, t *testing.T, w *world) (<-chan time.Time, func()) {
	t.Helper()
	c := w.user.command(ctx, "kubectl", "-n", namespace, "get", "pod", w.solo.Name, "-w", "-o",
		`jsonpath={.status.conditions[?(@.type=="Ready")].status}{"\n"}`)
	pipe, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	at := make(chan time.Time, 100)
	go func() {
		for last, lines := "", bufio.NewScanner(pipe); lines.Scan(); {
			if now := lines.Text(); now != last {
				if now == "True" && last != "" {
					at <- time.Now()
				}
				last = now
			}
		}
	}()
	return at, func() {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait() // it was interrupted
	}
}

func drain(c <-chan time.Time) {
	for {
		select {
		case <-c:
		default:
			return
		}
	}
}

func refused(ns *netns.NS, ip string) error {
	if err := get(ns, ip); err == nil {
		return fmt.Errorf("%s still answers", ip)
	}
	return nil
}

func firstAnswer(ctx context.Context, t *testing.T, ns *netns.NS, ip string) time.Time {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline) && ctx.Err() == nil; {
		if get(ns, ip) == nil {
			return time.Now()
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("%s did not answer within 20 s", ip)
	return time.Time{}
}

// get asks once over a new connection from inside the namespace.
func get(ns *netns.NS, ip string) error {
	return ns.Do(func() error {
		conn, err := net.DialTimeout("tcp", ip+":80", time.Second)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(2 * time.Second))
		if _, err := io.WriteString(conn, "GET / HTTP/1.1\r\nHost: solo\r\nConnection: close\r\n\r\n"); err != nil {
			return err
		}
		r, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		if r.StatusCode != http.StatusOK {
			return fmt.Errorf("status %s", r.Status)
		}
		return nil
	})
}

// ownCost reports what podway's own processes use while the cluster is idle.
func ownCost(t *testing.T, u *user) {
	before := podwayProcesses(t)
	if len(before) < 5 {
		t.Fatalf("found %d of podway's processes in Pods, want 2 agents, a controller and 2 proxies", len(before))
	}
	const window = 10 * time.Second
	time.Sleep(window)
	after := podwayProcesses(t)
	for pid, p := range before {
		q, ok := after[pid]
		if !ok {
			continue
		}
		cpu := float64(q.ticks-p.ticks) / 100 / window.Seconds() * 100
		t.Logf("RESULT own_process role=%s rss_mb=%.0f idle_cpu_percent=%.1f", p.role, float64(q.rssKB)/1024, cpu)
		if q.rssKB > 200<<10 {
			t.Errorf("%s uses %d MB, want at most 200", p.role, q.rssKB>>10)
		}
	}
}

type process struct {
	role  string
	ticks int // of 10 ms, user and system
	rssKB int
}

// podwayProcesses are the processes whose command line is that of podway's containers.
func podwayProcesses(t *testing.T) map[string]process {
	t.Helper()
	out := map[string]process{}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		args := strings.Split(strings.TrimRight(string(line), "\x00"), "\x00")
		if len(args) != 2 || args[0] != "/podway" || !slices.Contains([]string{"node", "controller", "ingress"}, args[1]) {
			continue
		}
		p := process{role: args[1]}
		stat, _ := os.ReadFile("/proc/" + e.Name() + "/stat")
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		var user, system int
		if _, err := fmt.Sscan(fields[11]+" "+fields[12], &user, &system); err != nil {
			t.Fatal(err)
		}
		p.ticks = user + system
		status, _ := os.ReadFile("/proc/" + e.Name() + "/status")
		for l := range strings.Lines(string(status)) {
			if v, ok := strings.CutPrefix(l, "VmRSS:"); ok {
				if _, err := fmt.Sscan(v, &p.rssKB); err != nil {
					t.Fatal(err)
				}
			}
		}
		out[e.Name()] = p
	}
	return out
}

// killedAgent ends an agent's process with SIGKILL while requests flow: the rules stay, and a new agent adopts them.
func killedAgent(ctx context.Context, t *testing.T, w *world) {
	node := w.clients[0].Node
	ns := nodeNetwork(t, w.user, node)
	defer ns.Close()
	ip, err := w.user.kubectl(ctx, "-n", namespace, "get", "service", "echo", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		t.Fatal(err)
	}
	kubelets, err := w.user.kubelets(ctx)
	if err != nil {
		t.Fatal(err)
	}
	running, err := agents(kubelets)
	if err != nil || running[node] == nil {
		t.Fatalf("no agent on %s: %v, %v", node, running, err)
	}
	if err := running[node].Kill(); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for range 300 {
		if err := get(ns, ip); err != nil {
			failed++
			t.Logf("while the agent was away: %v", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if failed > 0 {
		t.Errorf("%d of 300 requests failed while the agent was away, want 0", failed)
	}
	if _, err := w.user.kubectl(ctx, "-n", "kube-system", "rollout", "status", "daemonset/podway-node", "--timeout=60s"); err != nil {
		t.Error(err)
	}
}
