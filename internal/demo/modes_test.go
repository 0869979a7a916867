package demo

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"
)

// changeMode gives a cluster that runs another mode of the service proxy while a Pod opens connections, then tries all paths.
func changeMode(ctx context.Context, t *testing.T, w *world, mode string) {
	ip, err := w.user.kubectl(ctx, "-n", namespace, "get", "service", "echo", "-o", "jsonpath={.spec.clusterIP}")
	if err != nil {
		t.Fatal(err)
	}
	under, stop := context.WithCancel(ctx)
	defer stop()
	done := make(chan load)
	go func() { // a piece at a time, until the mode has changed
		var all load
		for under.Err() == nil {
			out, err := w.user.inPod(ctx, w.clients[0].Name, "load", "-json", "-new", "-rate", "100", "-n", "300", "-most", "32", "http://"+ip+"/")
			var l load
			if e := json.Unmarshal([]byte(out), &l); e != nil {
				t.Error(errors.Join(e, err))
				break
			}
			all.Requests, all.Failed = all.Requests+l.Requests, all.Failed+l.Failed
			if l.Failed > 0 {
				t.Errorf("failed requests: %v", l.Why)
			}
		}
		done <- all
	}()
	start := time.Now()
	if err := w.user.show(ctx, "up", "--refresh", "--proxy-mode", mode); err != nil {
		t.Error(err)
	}
	took := time.Since(start)
	stop()
	l := <-done
	if err := w.user.expectMode(ctx, mode); err != nil {
		t.Error(err)
	}
	failed := 0
	for _, p := range paths() {
		if _, err := w.try(ctx, p); err != nil {
			failed++
			t.Errorf("%s: %v", p.name, err)
		}
	}
	t.Logf("RESULT mode=%s paths=%d paths_failed=%d switch_s=%.1f requests=%d requests_failed=%d", mode, len(paths()), failed, took.Seconds(), l.Requests, l.Failed)
	if l.Failed > 0 || l.Requests < 300 {
		t.Errorf("%d of %d requests failed while the mode changed", l.Failed, l.Requests)
	}
}

// shortSoak is a little of what make soak does.
func shortSoak(ctx context.Context, t *testing.T, u *user) {
	s, err := newSoak(ctx, u, SoakOptions{Mode: "nftables", Requests: 3000, Rate: 150, KillEvery: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := s.report(); err != nil {
		t.Error(err)
	}
	for node := range s.nodes {
		if s.kills[node] < 2 {
			t.Errorf("the agent of %s was killed %d times", node, s.kills[node])
		}
	}
	if s.rollouts == 0 {
		t.Error("no server was replaced")
	}
}

func TestTheModeIsReadFromWhatANodeHas(t *testing.T) {
	const other = "would remove  podnet: nftables table ip podway-podnet\n"
	for _, c := range []struct{ has, want string }{
		{"would remove  proxy nftables: table ip podway-proxy (9 lines)\n" + other, "nftables"},
		{"would remove  proxy iptables: IPv4 nat (9 lines)\nwould remove  proxy iptables: IPv4 filter (9 lines)\n", "iptables"},
		{"would remove  proxy nftables: table ip podway-proxy (9 lines)\nwould remove  proxy ebpf: table ip podway-proxy (9 lines)\n", "ebpf"},
		{"would remove  proxy nftables: table\nwould remove  proxy iptables: IPv4 nat\n", ""},
		{other, ""},
	} {
		if got, err := modeIn(c.has); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q is mode %q, %v, want %q", c.has, got, err, c.want)
		}
	}
}
