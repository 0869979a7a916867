package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/api"
	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/controlplane"
	"github.com/podway/podway/internal/lab/network"
	"github.com/podway/podway/internal/lab/pki"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
)

type supervisor struct {
	*board
	cluster spec.Cluster
	cgroups cgroup.Host
	reaper  *process.Reaper
	network *network.Network
	client  *api.Client

	workers, servers, store sync.WaitGroup // nodes and clients of the API server; the API server; etcd
}

const readyFD = 3 // a pipe to `podway up`: closed when questions are answered, or with what went wrong

// Run is the daemon. It returns when it was told to stop and everything of the lab has ended.
func Run(dir string) error {
	unix.CloseOnExec(readyFD)
	ready := os.NewFile(readyFD, "ready")
	s, l, err := prepare(dir, ready)
	if err != nil {
		fmt.Fprint(ready, err)
		ready.Close()
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM, unix.SIGINT)
	defer stop()
	go s.serve(l, stop)
	ready.Close()
	s.reaper = process.NewReaper(context.Background())
	slog.Info("supervisor started", "dir", dir, "pid", os.Getpid())
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		s.fail(err)
		<-ctx.Done() // it says why, until somebody takes it away
	}
	slog.Info("supervisor stopped")
	return nil
}

// abandoned says whether the other end of a pipe is gone: a `podway up` that was killed wants no cluster any more.
func abandoned(pipe *os.File) bool {
	p := []unix.PollFd{{Fd: int32(pipe.Fd()), Events: unix.POLLOUT}}
	_, err := unix.Poll(p, 0)
	return err == nil && p[0].Revents&unix.POLLERR != 0
}

// prepare takes the lab's folder and goes into the lab's cgroup, before anything else exists. Until then nobody could
// find this process, so it ends when its starter has.
func prepare(dir string, ready *os.File) (*supervisor, net.Listener, error) {
	c, err := spec.Load(dir)
	if err != nil {
		return nil, nil, err
	}
	if err := takeLock(filepath.Join(dir, LockFile)); err != nil {
		return nil, nil, err
	}
	if abandoned(ready) {
		return nil, nil, errors.New("lab: podway up ended before its supervisor had started")
	}
	s := &supervisor{board: newBoard(c), cluster: c}
	if s.cgroups, err = cgroup.Detect(); err != nil {
		return nil, nil, err
	}
	group := Group(s.cgroups, c)
	switchedOn, err := group.Create()
	if err != nil {
		return nil, nil, err
	}
	if err := noteControllers(dir, switchedOn); err != nil {
		return nil, nil, err
	}
	if err := weigh(s.cgroups, c); err != nil {
		return nil, nil, err
	}
	if err := group.Join(os.Getpid()); err != nil {
		return nil, nil, err
	}
	l, err := Listen(dir)
	return s, l, err
}

// weigh makes a cluster count as the dozen of processes that it is, or more: else all of it together gets as much of a
// busy machine as one compiler does.
func weigh(h cgroup.Host, c spec.Cluster) error {
	components := len(controlplane.Components())
	if err := h.Group(spec.CgroupName(c.Dir)).Weigh(components + 3*c.Nodes); err != nil {
		return err
	}
	return Group(h, c).Weigh(components)
}

// Group is the control group of the supervisor and the control plane.
func Group(h cgroup.Host, c spec.Cluster) cgroup.Group {
	return h.Group(spec.CgroupName(c.Dir)).Child("system")
}

// LockFile is held by the supervisor of a folder as long as it lives.
const LockFile = "supervisor.lock"

// takeLock holds a lock as long as this process lives.
func takeLock(path string) error {
	fd, err := unix.Open(path, unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return fmt.Errorf("lab: lock: %w", err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lab: another supervisor runs in this folder (%s): %w", path, err)
	}
	return nil
}

// ControllersFile lists the controllers that a lab switched on in the root of the version 2 tree.
const ControllersFile = "controllers.json"

func noteControllers(dir string, on []string) error {
	if len(on) == 0 {
		return nil
	}
	b, err := json.Marshal(on)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, ControllersFile), b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	return nil
}

// run brings everything up, keeps it, and takes it down in order when ctx ends.
func (s *supervisor) run(ctx context.Context) error {
	if err := s.build(ctx); err != nil {
		return err
	}
	defer s.network.Close()
	relay, err := s.relay()
	if err != nil {
		return err
	}
	defer relay.Close()
	workers, endWorkers := context.WithCancel(context.Background())
	servers, endServers := context.WithCancel(context.Background())
	store, endStore := context.WithCancel(context.Background())
	s.keep(store, &s.store, controlplane.Etcd)
	server := s.keep(servers, &s.servers, controlplane.APIServer)
	s.workers.Go(func() { s.startWorkers(workers, server) })
	<-ctx.Done()
	// The API server without its store waits for it for a minute: it ends first.
	for _, end := range []struct {
		cancel context.CancelFunc
		group  *sync.WaitGroup
	}{{endWorkers, &s.workers}, {endServers, &s.servers}, {endStore, &s.store}} {
		end.cancel()
		end.group.Wait()
	}
	return nil
}

// build makes what processes need, at the same time where it can.
func (s *supervisor) build(ctx context.Context) error {
	g, _ := errgroup.WithContext(ctx)
	timed := func(name string, f func() error) {
		g.Go(func() error {
			began := time.Now()
			if err := f(); err != nil {
				return err
			}
			s.step(name, time.Since(began))
			return nil
		})
	}
	timed(StepNetwork, func() (err error) {
		s.network, err = network.Build()
		if err == nil {
			s.update(func(st *Status) {
				st.Control, st.Outside, st.Client = s.network.Control.Path(), s.network.Outside.Path(), s.network.Client.Path()
			})
		}
		return err
	})
	timed(StepCertificates, func() error { return pki.Ensure(s.cluster) })
	timed(StepImages, func() error { _, err := SaveImages(s.cluster); return err })
	if err := g.Wait(); err != nil {
		return err
	}
	var err error
	s.client, err = api.New(spec.Server(), s.cluster.PKI(), pki.Admin, s.dial)
	return err
}

func (s *supervisor) dial(ctx context.Context, _, address string) (net.Conn, error) {
	return s.network.Control.Dial(ctx, address)
}

// relay opens the API server's port on the host. When the wanted port is taken it takes the next free one, and the
// kubeconfig follows.
func (s *supervisor) relay() (net.Listener, error) {
	l, port, err := network.Listen(s.cluster.Port)
	if err != nil {
		return nil, err
	}
	if port != s.cluster.Port {
		slog.Warn("port is taken, using the next free one", "wanted", s.cluster.Port, "port", port)
		s.cluster.Port = port
		if err := s.cluster.Save(); err != nil {
			return nil, err
		}
		s.update(func(st *Status) { st.Cluster = s.cluster })
	}
	if err := pki.HostKubeconfig(s.cluster); err != nil {
		return nil, err
	}
	go s.network.Control.Relay(l, fmt.Sprintf("%s:%d", spec.APIServerAddress, spec.APIServerPort))
	return l, nil
}

// keep keeps a component of the control plane running until ctx ends.
func (s *supervisor) keep(ctx context.Context, group *sync.WaitGroup, name string) *process.Service {
	sv := &process.Service{
		Name: name, Log: s.cluster.Log(name), Ready: controlplane.Probe(name, s.client, s.dial),
		Start: func() (process.Process, error) {
			return s.reaper.Start(process.Command{
				Path: s.cluster.Kubernetes, Args: controlplane.Args(s.cluster, name), Env: os.Environ(),
				Log: s.cluster.Log(name), In: s.network.Control,
			})
		},
	}
	if name == controlplane.Etcd {
		sv.Grace = 3 * time.Second // to close its files
	}
	sv.OnChange(s.component)
	group.Go(func() { sv.Run(ctx) })
	return sv
}

// startWorkers starts what works through the API server. Nodes have enough to do until it answers; the other two would
// only take its time, and pause for seconds after having been sent away.
func (s *supervisor) startWorkers(ctx context.Context, server *process.Service) {
	for _, n := range s.cluster.AllNodes() {
		s.keepNode(ctx, n)
	}
	s.workers.Go(func() { s.watchNodes(ctx) })
	if server.WaitReady(ctx) != nil {
		return
	}
	s.keep(ctx, &s.workers, controlplane.ControllerManager)
	s.keep(ctx, &s.workers, controlplane.Scheduler)
}
