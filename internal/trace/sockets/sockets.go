// Package sockets says which ports the processes of a Pod listen on. It reads /proc only: it enters no namespace and runs
// nothing in the Pod. It owns no judgement: trace compares its answer with the Service.
package sockets

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener is a socket that takes connections, or datagrams from anybody.
type Listener struct {
	Proto   string         `json:"proto"` // tcp or udp
	Addr    netip.AddrPort `json:"addr"`
	PID     int            `json:"pid,omitempty"` // as this machine's /proc counts; 0 = no process of the Pod was seen to hold it
	Command string         `json:"command,omitempty"`
}

// Report is what was found of a Pod.
type Report struct {
	Processes int        `json:"processes"` // 0: the Pod has no process on this node
	Listeners []Listener `json:"listeners"`
}

// Procs returns the directory of the host's processes: /host/proc when that is mounted, else /proc.
func Procs() string {
	if _, err := os.Stat("/host/proc/1/cgroup"); err == nil {
		return "/host/proc"
	}
	return "/proc"
}

// ErrNoProcess says that no process of the Pod runs here.
var ErrNoProcess = errors.New("no process of the Pod was found on this node")

// PIDs returns the processes whose cgroup is the Pod's, in ascending order: kubelet puts the Pod's UID in the path, with
// dashes (cgroupfs driver) or underscores (systemd driver), in both cgroup versions.
func PIDs(proc, podUID string) ([]int, error) {
	if podUID == "" {
		return nil, fmt.Errorf("sockets: %w: its UID is not known", ErrNoProcess)
	}
	all, err := cgroups(proc)
	if err != nil {
		return nil, err
	}
	return all.of(podUID), nil
}

// members are the processes of a machine with their cgroup files.
type members map[int]string

func cgroups(proc string) (members, error) {
	entries, err := os.ReadDir(proc)
	if err != nil {
		return nil, fmt.Errorf("sockets: list processes: %w", err)
	}
	out := members{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		data, err := os.ReadFile(filepath.Join(proc, e.Name(), "cgroup"))
		if err == nil { // else it ended meanwhile
			out[pid] = string(data)
		}
	}
	return out, nil
}

func (m members) of(podUID string) (out []int) {
	names := [2]string{"pod" + podUID, "pod" + strings.ReplaceAll(podUID, "-", "_")}
	for pid, cgroup := range m {
		if podUID != "" && inPod(cgroup, names) {
			out = append(out, pid)
		}
	}
	slices.Sort(out)
	return out
}

// inPod reports whether a path element of the cgroup file names the Pod.
func inPod(cgroup string, names [2]string) bool {
	for _, n := range names {
		for rest := cgroup; ; {
			i := strings.Index(rest, n)
			if i < 0 {
				break
			}
			rest = rest[i+len(n):]
			if rest == "" || strings.ContainsRune("/.\n", rune(rest[0])) {
				return true
			}
		}
	}
	return false
}

// Read lists the listening sockets of the Pod's network namespace.
func Read(proc, podUID string) (Report, error) {
	pids, err := PIDs(proc, podUID)
	if err != nil {
		return Report{}, err
	}
	if len(pids) == 0 {
		return Report{}, ErrNoProcess
	}
	return read(proc, strconv.Itoa(pids[0]), pids)
}

// ReadNode lists the listening sockets of this process's own network namespace: of an agent on the host's network, those of
// the node. Which process holds them is not looked up.
func ReadNode() (Report, error) { return read("/proc", "self", []int{os.Getpid()}) }

// ReadAll is Read for many Pods, with one look at the processes. A Pod without processes is not in the map.
func ReadAll(proc string, podUIDs []string) (map[string]Report, error) {
	out := map[string]Report{}
	entries, err := cgroups(proc)
	if err != nil {
		return nil, err
	}
	for _, uid := range podUIDs {
		if pids := entries.of(uid); len(pids) > 0 {
			if r, err := read(proc, strconv.Itoa(pids[0]), pids); err == nil {
				out[uid] = r
			}
		}
	}
	return out, nil
}

// read lists the sockets of the network namespace of process of, and which of pids hold them.
func read(proc, of string, pids []int) (Report, error) {
	var found []listening
	for _, file := range []string{"tcp", "tcp6", "udp", "udp6"} {
		data, err := os.ReadFile(filepath.Join(proc, of, "net", file))
		if errors.Is(err, fs.ErrNotExist) && strings.HasSuffix(file, "6") {
			continue // a kernel without IPv6
		}
		if err != nil {
			return Report{}, fmt.Errorf("sockets: %w", err)
		}
		more, err := parseTable(strings.TrimSuffix(file, "6"), string(data))
		if err != nil {
			return Report{}, fmt.Errorf("sockets: /proc/%s/net/%s: %w", of, file, err)
		}
		found = append(found, more...)
	}
	owners := holders(proc, pids)
	r := Report{Processes: len(pids)}
	for _, l := range found {
		l.PID = owners[l.inode]
		if l.PID != 0 {
			l.Command = command(proc, l.PID)
		}
		r.Listeners = append(r.Listeners, l.Listener)
	}
	slices.SortFunc(r.Listeners, func(a, b Listener) int {
		return cmp.Or(strings.Compare(a.Proto, b.Proto), cmp.Compare(a.Addr.Port(), b.Addr.Port()), a.Addr.Compare(b.Addr))
	})
	return r, nil
}

// holders maps socket inodes to the process that has them open. Processes that may not be looked into are left out.
func holders(proc string, pids []int) map[string]int {
	out := map[string]int{}
	for _, pid := range pids {
		dir := filepath.Join(proc, strconv.Itoa(pid), "fd")
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue
		}
		for _, e := range entries {
			link, err := os.Readlink(filepath.Join(dir, e.Name()))
			if inode, ok := strings.CutPrefix(link, "socket:["); ok && err == nil {
				out[strings.TrimSuffix(inode, "]")] = pid
			}
		}
	}
	return out
}

func command(proc string, pid int) string {
	data, err := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "comm"))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
