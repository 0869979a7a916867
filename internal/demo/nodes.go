package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// kubelets are the process ids of the nodes' kubelets, by node, as podway status names them.
func (u *user) kubelets(ctx context.Context) (map[string]int, error) {
	out, err := u.run(ctx, nil, "status", "--output", "json")
	if err != nil && out == "" {
		return nil, err
	}
	var st struct {
		Processes []struct {
			Where, Name string
			PID         int
		}
	}
	if err := json.Unmarshal([]byte(out), &st); err != nil {
		return nil, fmt.Errorf("demo: read status: %w", err)
	}
	pids := map[string]int{}
	for _, p := range st.Processes {
		if p.Name == "kubelet" {
			pids[p.Where] = p.PID
		}
	}
	if len(pids) == 0 {
		return nil, fmt.Errorf("demo: podway status names no kubelet: %s", out)
	}
	return pids, nil
}

// agents are the processes of the node agents that run, by node: those with podway's command line in the network of the
// node's kubelet, so never another cluster's.
func agents(kubelets map[string]int) (map[string]*os.Process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("demo: %w", err)
	}
	found := map[string]*os.Process{}
	for _, e := range entries {
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // it may be gone by now
		pid, _ := strconv.Atoi(e.Name())
		if pid == 0 || !slices.Equal(strings.Split(strings.TrimRight(string(line), "\x00"), "\x00"), []string{"/podway", "node"}) {
			continue
		}
		for node, kubelet := range kubelets {
			if sameNetwork(pid, kubelet) {
				if found[node], err = os.FindProcess(pid); err != nil {
					return nil, fmt.Errorf("demo: %w", err)
				}
			}
		}
	}
	return found, nil
}

func sameNetwork(a, b int) bool {
	x, err1 := os.Stat(fmt.Sprintf("/proc/%d/ns/net", a))
	y, err2 := os.Stat(fmt.Sprintf("/proc/%d/ns/net", b))
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// proxyMode tells from a node's live rules which mode of the service proxy it has.
func (u *user) proxyMode(ctx context.Context, node string) (string, error) {
	out, err := u.run(ctx, nil, "exec", node, "--", "podway", "cleanup", "--dry-run")
	if err != nil {
		return "", err
	}
	return modeIn(out)
}

// modeIn reads what podway cleanup --dry-run says: one mode, or ebpf over the rules of nftables.
func modeIn(cleanup string) (string, error) {
	var modes []string
	for line := range strings.Lines(cleanup) {
		if _, rest, ok := strings.Cut(line, "proxy "); ok && strings.HasPrefix(line, "would remove") {
			if mode, _, ok := strings.Cut(rest, ":"); ok && !slices.Contains(modes, mode) {
				modes = append(modes, mode)
			}
		}
	}
	switch {
	case len(modes) == 1:
		return modes[0], nil
	case len(modes) == 2 && slices.Contains(modes, "ebpf") && slices.Contains(modes, "nftables"):
		return "ebpf", nil
	}
	return "", fmt.Errorf("demo: rules of %d modes of the service proxy: %v", len(modes), modes)
}

// sameMode is the mode of all nodes' rules; an error when they differ.
func (u *user) sameMode(ctx context.Context) (mode string, err error) {
	nodes, err := u.kubelets(ctx)
	if err != nil {
		return "", err
	}
	for _, n := range slices.Sorted(maps.Keys(nodes)) {
		is, err := u.proxyMode(ctx, n)
		if err != nil {
			return "", fmt.Errorf("%s: %w", n, err)
		}
		if mode != "" && is != mode {
			return "", fmt.Errorf("demo: %s has proxy mode %s, the node before it %s", n, is, mode)
		}
		mode = is
	}
	return mode, nil
}

// expectMode is an error unless each node has the rules of the mode now.
func (u *user) expectMode(ctx context.Context, want string) error {
	got, err := u.sameMode(ctx)
	if err == nil && got != want {
		err = fmt.Errorf("demo: the nodes have proxy mode %s, want %s", got, want)
	}
	return err
}
