package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// unready takes one echo Pod out of service and back, and looks at slices, DNS and rules each time.
func unready(ctx context.Context, t *testing.T, w *world) {
	gone, left := w.echoes[0], w.echoes[1]
	if _, err := w.user.inPod(ctx, gone.Name, "ready", "off"); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := w.user.inPod(ctx, gone.Name, "ready", "on"); err != nil {
			t.Fatal(err)
		}
		if err := eventually(ctx, 20*time.Second, func() error { return serving(ctx, w, left, gone) }); err != nil {
			t.Errorf("after it is ready again: %v", err)
		}
	}()
	if err := eventually(ctx, 20*time.Second, func() error { return serving(ctx, w, left) }); err != nil {
		t.Error(err)
	}
}

// serving reports whether exactly these Pods are ready in the slices, are what the headless name answers, and are where
// the ClusterIP leads.
func serving(ctx context.Context, w *world, pods ...pod) error {
	out, err := w.user.kubectl(ctx, "-n", namespace, "get", "endpointslices", "-l", "kubernetes.io/service-name=echo-pods",
		"-o", "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}")
	if err != nil {
		return err
	}
	if n := len(strings.Fields(out)); n != len(pods) {
		return fmt.Errorf("slices have %d ready endpoints (%s), want %d", n, out, len(pods))
	}
	out, err = w.user.inPod(ctx, w.clients[0].Name, "dig", "A", "echo-pods")
	if err != nil {
		return err
	}
	for _, p := range w.echoes {
		if strings.Contains(out, p.Addr) != contains(pods, p) {
			return fmt.Errorf("DNS says %q, want exactly %v", out, pods)
		}
	}
	out, err = w.user.inPod(ctx, w.clients[0].Name, "get", "-new", "-n", "60", "http://echo/")
	if err != nil {
		return err
	}
	for _, p := range w.echoes {
		if strings.Contains(out, p.Name) != contains(pods, p) {
			return fmt.Errorf("60 requests to the ClusterIP: %s answered is %v, want %v", p.Name, !contains(pods, p), contains(pods, p))
		}
	}
	return nil
}

func contains(pods []pod, p pod) bool {
	for _, q := range pods {
		if q.Name == p.Name {
			return true
		}
	}
	return false
}

// rollingUpdate restarts the echo Deployment while three clients send requests, each connection new: through the
// ClusterIP from a Pod, through the NodePort-less LoadBalancer address and through the Ingress from outside.
func rollingUpdate(ctx context.Context, t *testing.T, w *world) {
	type result struct {
		name string
		out  string
		err  error
	}
	const during = "25s"
	clients := map[string]func() (string, error){
		"ClusterIP from a Pod": func() (string, error) {
			return w.user.inPod(ctx, w.clients[0].Name, "load", "-json", "-new", "-rate", "100", "-for", during, "http://echo/")
		},
		"ClusterIP from a Pod, connections kept": func() (string, error) {
			return w.user.inPod(ctx, w.clients[1].Name, "load", "-json", "-rate", "100", "-for", during, "http://echo/")
		},
		"Ingress from outside": func() (string, error) {
			return w.user.from(ctx, "client", "load", "-json", "-new", "-k", "-rate", "50", "-for", during, "-resolve", shopHost+"="+w.ingressIP, "https://"+shopHost+"/")
		},
	}
	results := make(chan result, len(clients))
	for name, run := range clients {
		go func() {
			out, err := run()
			results <- result{name, out, err}
		}()
	}
	time.Sleep(2 * time.Second) // let the load begin
	if _, err := w.user.kubectl(ctx, "-n", namespace, "rollout", "restart", "deployment/echo"); err != nil {
		t.Error(err)
	}
	if _, err := w.user.kubectl(ctx, "-n", namespace, "rollout", "status", "deployment/echo", "--timeout=90s"); err != nil {
		t.Error(err)
	}
	for range clients {
		r := <-results
		var l load
		if err := json.Unmarshal([]byte(r.out), &l); err != nil {
			t.Errorf("%s: no report: %v; %v: %s", r.name, err, r.err, r.out)
			continue
		}
		t.Logf("RESULT rolling update, %s: sent=%d failed=%d %v", r.name, l.Requests, l.Failed, l.Why)
		if l.Failed > 0 || l.Requests < 500 {
			t.Errorf("%s: %d of %d requests failed, want 0 of at least 500: %v", r.name, l.Failed, l.Requests, l.Why)
		}
	}
	if err := w.readPods(ctx); err != nil {
		t.Error(err)
	}
}
