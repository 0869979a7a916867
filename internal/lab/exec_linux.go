package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/node"
	"github.com/podway/podway/internal/lab/pki"
	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

// place is where a program can be run: a node with all of its namespaces, or a network namespace alone.
type place struct {
	network string // path of a network namespace, for places that are no node
	pid     int    // a node's first process
	path    string // PATH there
	config  string // an administrator's kubeconfig that works there
	group   cgroup.Group
}

func find(st supervisor.Status, where string) (place, error) {
	host, err := cgroup.Detect()
	if err != nil {
		return place{}, err
	}
	p := place{path: os.Getenv("PATH"), config: st.Cluster.PKI(pki.Admin + ".kubeconfig"), group: supervisor.Group(host, st.Cluster)}
	switch where {
	case Outside:
		p.network = st.Outside
	case Client:
		p.network = st.Client
	case ControlPlane:
		p.network = st.Control
	}
	if p.network != "" {
		return p, nil
	}
	names := []string{Outside, Client, ControlPlane}
	for _, n := range st.Nodes {
		if n.Name != where {
			names = append(names, n.Name)
			continue
		}
		if n.PID == 0 {
			return p, fmt.Errorf("lab: %s is %s", where, n.State)
		}
		p.pid, p.path, p.config, p.group = n.PID, node.Path(st.Cluster), node.Kubeconfig, node.ProcessGroup(host, st.Cluster, where)
		return p, nil
	}
	return p, misuse("lab: no %q here; there are: %s", where, strings.Join(names, ", "))
}

// Exec runs a program in a node, or in the network of `outside`, `client` or `control-plane`, with this process's
// files. It returns an Exit when the program ends otherwise than well.
func Exec(ctx context.Context, dir, where string, argv []string) error {
	st, err := supervisor.Connect(dir).Status(ctx, -1)
	if err != nil {
		return notRunning(dir, err)
	}
	p, err := find(st, where)
	if err != nil {
		return err
	}
	if err := p.group.Join(os.Getpid()); err != nil { // so that `down` finds it
		return err
	}
	child, err := p.start(argv, []*os.File{os.Stdin, os.Stdout, os.Stderr})
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = child.Signal(unix.SIGTERM) }) // the terminal's ^C reaches it by itself
	defer stop()
	state, err := child.Wait()
	if err != nil {
		return fmt.Errorf("lab: exec: %w", err)
	}
	if ws, ok := state.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return Exit(128 + int(ws.Signal())) // as a shell says it
	}
	if code := state.ExitCode(); code != 0 {
		return Exit(code)
	}
	return nil
}

func notRunning(dir string, err error) error {
	if errors.Is(err, supervisor.ErrGone) {
		if left := leftover(dir); left > 0 {
			return fmt.Errorf("lab: the supervisor of %s is dead, and %d of its processes run on: podway up repairs it, podway down ends them", dir, left)
		}
		return fmt.Errorf("lab: no cluster runs in %s; start it with: podway up", dir)
	}
	return err
}

// leftover counts the processes of a lab.
func leftover(dir string) int {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return 0
	}
	host, err := cgroup.Detect()
	if err != nil {
		return 0
	}
	pids, _ := host.Group(spec.CgroupName(abs)).Processes()
	return len(pids)
}

// start starts a program there. It goes through a thread of its own, which changes its namespaces and is not used again.
func (p place) start(argv []string, files []*os.File) (*os.Process, error) {
	type result struct {
		process *os.Process
		err     error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		var r result
		if r.err = p.enter(); r.err == nil {
			r.process, r.err = p.spawn(argv, files)
		}
		done <- r
	}()
	r := <-done
	return r.process, r.err
}

// enter moves the calling thread. The mount namespace comes last: afterwards the host's files are out of reach.
func (p place) enter() error {
	if p.pid == 0 {
		return setns(p.network, unix.CLONE_NEWNET)
	}
	if err := unix.Unshare(unix.CLONE_FS); err != nil { // a root of its own, which setns wants
		return fmt.Errorf("lab: exec: %w", err)
	}
	for _, ns := range []struct {
		name string
		flag int
	}{{"net", unix.CLONE_NEWNET}, {"uts", unix.CLONE_NEWUTS}, {"ipc", unix.CLONE_NEWIPC}, {"cgroup", unix.CLONE_NEWCGROUP},
		{"pid", unix.CLONE_NEWPID}, {"mnt", unix.CLONE_NEWNS}} {
		if err := setns(fmt.Sprintf("/proc/%d/ns/%s", p.pid, ns.name), ns.flag); err != nil {
			return err
		}
	}
	return nil
}

func setns(path string, flag int) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("lab: exec: open %s: %w", path, err)
	}
	defer unix.Close(fd)
	if err := unix.Setns(fd, flag); err != nil {
		return fmt.Errorf("lab: exec: enter %s: %w", path, err)
	}
	return nil
}

func (p place) spawn(argv []string, files []*os.File) (*os.Process, error) {
	program, err := lookIn(p.path, argv[0])
	if err != nil {
		return nil, &NotStarted{127, err}
	}
	attr := &os.ProcAttr{Env: p.environment(), Files: files}
	if p.pid != 0 {
		attr.Dir = "/" // this process's folder need not exist there
	}
	child, err := os.StartProcess(program, argv, attr)
	if err != nil {
		code := 126
		if errors.Is(err, os.ErrNotExist) {
			code = 127
		}
		return nil, &NotStarted{code, fmt.Errorf("lab: exec: %w", err)}
	}
	return child, nil
}

// lookIn finds a program as execvp(3) does, in this thread's file system.
func lookIn(path, name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for dir := range strings.SplitSeq(path, ":") {
		if p := dir + "/" + name; dir != "" && executable(p) == nil {
			return p, nil
		}
	}
	return "", fmt.Errorf("lab: exec: %s: %w", name, exec.ErrNotFound)
}

// environment is this process's, with what the place makes different.
func (p place) environment() []string {
	env := slices.DeleteFunc(os.Environ(), func(e string) bool {
		return strings.HasPrefix(e, "PATH=") || strings.HasPrefix(e, "KUBECONFIG=")
	})
	return append(env, "PATH="+p.path, "KUBECONFIG="+p.config)
}
