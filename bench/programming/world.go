package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/podway/podway/internal/kernel/netns"
)

// The far node has no kubelet: its Pods are objects, and all their addresses lead to one listener in `outside`.
const (
	farNode    = "far"
	farAddress = "10.90.0.100" // outside's
	farPods    = "10.128.0.0/16"
	listenPort = 8080
	namespace  = "bench"
)

// world is one side's cluster.
type world struct {
	name    string
	dir     string
	api     kubernetes.Interface
	node    *netns.NS // node-1's network: where the clients are
	running []*exec.Cmd
	beat    context.CancelFunc // of the far node
	ready   []bool             // by Pod
	addrs   []netip.Addr       // of the Services
	took    []time.Duration
	writes  []time.Duration // of the API write alone
	rates   []float64       // of changes, by round
}

func bin(program string) string {
	p, err := filepath.Abs(filepath.Join("bin", program))
	if err != nil {
		panic(err) // no working directory
	}
	return p
}

func startPodway(ctx context.Context) (*world, error) { return start(ctx, "podway", "podway") }

// startKube starts a cluster without podway, and kube-proxy on its node.
func startKube(ctx context.Context) (*world, error) {
	w, err := start(ctx, "kube-proxy", "none")
	if err != nil {
		return w, err
	}
	if err := w.podway(ctx, "exec", "node-1", "--", "ip", "route", "add", farPods, "via", farAddress); err != nil {
		return w, err
	}
	return w, w.background(ctx, "exec", "node-1", "--", "sh", "-c", `exec podway-lab kube-proxy --proxy-mode=nftables --kubeconfig="$KUBECONFIG" \
		--hostname-override=node-1 --cluster-cidr=10.244.0.0/16 --conntrack-max-per-core=0 \
		--conntrack-tcp-timeout-established=0 --conntrack-tcp-timeout-close-wait=0`)
}

func start(ctx context.Context, name, networking string) (*world, error) {
	dir, err := os.MkdirTemp("/var/lib", "podway-bench-")
	if err != nil {
		return nil, err
	}
	w := &world{name: name, dir: dir}
	fmt.Fprintf(os.Stderr, "%s: starting its cluster\n", name)
	if err := w.podway(ctx, "up", "--nodes", "1", "--networking", networking); err != nil {
		return w, err
	}
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(dir, "kubeconfig"))
	if err != nil {
		return w, err
	}
	config.QPS, config.Burst = -1, -1
	if w.api, err = kubernetes.NewForConfig(config); err != nil {
		return w, err
	}
	if w.node, err = w.nodeNetwork(ctx); err != nil {
		return w, err
	}
	if err := w.podway(ctx, "exec", "outside", "--", "ip", "route", "add", "local", farPods, "dev", "lo"); err != nil {
		return w, err
	}
	self, err := os.Executable()
	if err != nil {
		return w, err
	}
	if err := w.background(ctx, "exec", "outside", "--", self, "-listen", fmt.Sprintf(":%d", listenPort)); err != nil {
		return w, err
	}
	return w, w.addFarNode(ctx)
}

// stop ends what was started and deletes the cluster.
func (w *world) stop() error {
	if w.beat != nil {
		w.beat()
	}
	for _, c := range w.running {
		_ = c.Process.Signal(os.Interrupt)
		_ = c.Wait() // it was interrupted
	}
	if w.node != nil {
		w.node.Close()
	}
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	err := w.podway(ctx, "down", "--delete")
	_ = os.Remove(w.dir)
	return err
}

func (w *world) command(ctx context.Context, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, bin("podway"), args...)
	c.Env = append(os.Environ(), "PODWAY_LAB_DIR="+w.dir)
	return c
}

func (w *world) podway(ctx context.Context, args ...string) error {
	if out, err := w.command(ctx, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("podway %v: %w\n%s", args, err, out)
	}
	return nil
}

// background starts a command whose output is in the cluster's folder.
func (w *world) background(ctx context.Context, args ...string) error {
	log, err := os.Create(filepath.Join(w.dir, fmt.Sprintf("bench-%d.log", len(w.running))))
	if err != nil {
		return err
	}
	defer log.Close()
	c := w.command(ctx, args...)
	c.Stdout, c.Stderr = log, log
	if err := c.Start(); err != nil {
		return err
	}
	w.running = append(w.running, c)
	return nil
}

func (w *world) nodeNetwork(ctx context.Context) (*netns.NS, error) {
	var out bytes.Buffer
	c := w.command(ctx, "status", "--output", "json")
	c.Stdout = &out
	if err := c.Run(); err != nil {
		return nil, fmt.Errorf("podway status: %w", err)
	}
	var st struct {
		Processes []struct {
			Where, Name string
			PID         int
		}
	}
	if err := json.Unmarshal(out.Bytes(), &st); err != nil {
		return nil, err
	}
	for _, p := range st.Processes {
		if p.Where == "node-1" && p.Name == "kubelet" {
			return netns.Open(fmt.Sprintf("/proc/%d/ns/net", p.PID))
		}
	}
	return nil, fmt.Errorf("podway status names no kubelet on node-1: %s", out.String())
}

// accept closes each connection at once: the question is only when it is made.
func accept(ctx context.Context, addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	context.AfterFunc(ctx, func() { l.Close() })
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		c.Close()
	}
}
