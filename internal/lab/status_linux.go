package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/node"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

// Inspect looks at the lab in dir.
func Inspect(ctx context.Context, dir string) (Report, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Report{}, fmt.Errorf("lab: %w", err)
	}
	r := Report{Dir: dir}
	host, err := cgroup.Detect()
	if err != nil {
		return r, err
	}
	pids, err := host.Group(spec.CgroupName(dir)).Processes()
	if err != nil {
		return r, err
	}
	for _, p := range pids {
		r.Memory += resident(p)
	}
	st, err := supervisor.Connect(dir).Status(ctx, -1)
	if errors.Is(err, supervisor.ErrGone) {
		r.Leftover = len(pids)
		return r, nil
	}
	if err != nil {
		return r, err
	}
	r.Running, r.Since, r.Kubeconfig, r.Server = true, st.Started, st.Cluster.Kubeconfig(), st.Cluster.HostServer()
	r.Missing = st.Missing(st.Cluster.Networking != spec.NetworkingNone)
	if st.Failed != "" {
		r.Missing = append(r.Missing, st.Failed)
	}
	r.Rows = rows(host, st)
	return r, nil
}

func rows(host cgroup.Host, st supervisor.Status) []Row {
	out := []Row{row(ControlPlane, process.Status{Name: "supervisor", State: process.Running, PID: st.PID})}
	for _, c := range st.Components {
		out = append(out, row(ControlPlane, c))
	}
	for _, n := range st.Nodes {
		first := n.Status
		first.Name = "init"
		out = append(out, row(n.Name, first))
		outer := outerPIDs(node.ProcessGroup(host, st.Cluster, n.Name))
		for _, s := range n.Services {
			s.PID = outer[s.PID]
			out = append(out, row(n.Name, s))
		}
	}
	return out
}

func row(where string, s process.Status) Row {
	return Row{Where: where, Name: s.Name, State: string(s.State), PID: s.PID, Memory: resident(s.PID), Restarts: s.Restarts, LastExit: s.LastExit}
}

// outerPIDs maps the process numbers inside a node to the host's.
func outerPIDs(g cgroup.Group) map[int]int {
	out := map[int]int{}
	pids, _ := g.Processes()
	for _, p := range pids {
		fields := strings.Fields(procStatus(p, "NSpid:"))
		if len(fields) == 2 { // one level deeper than ours, which pods' processes may share
			if inner, err := strconv.Atoi(fields[1]); err == nil {
				out[inner] = p
			}
		}
	}
	return out
}

// procStatus returns the value of a line of /proc/PID/status.
func procStatus(pid int, key string) string {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, key); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

func resident(pid int) int64 {
	if pid == 0 {
		return 0
	}
	kb, err := strconv.ParseInt(strings.TrimSuffix(procStatus(pid, "VmRSS:"), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kb << 10
}
