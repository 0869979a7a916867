package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/cgroup"
	"github.com/podway/podway/internal/lab/pki"
	"github.com/podway/podway/internal/lab/spec"
	"github.com/podway/podway/internal/lab/supervisor"
)

const defaultNodes = 2

// upLock is held by `podway up` as long as it works.
const upLock = "up.lock"

// Up brings a lab up, or what of it is dead, and waits until it is ready. It prints every step with its time.
func Up(ctx context.Context, o Options, manifests Manifests, out io.Writer) error {
	began := time.Now()
	c, err := resolve(o)
	if err != nil {
		return err
	}
	if os.Geteuid() != 0 {
		return errors.New("lab: not root: making network namespaces and mounts needs it; try: sudo podway up")
	}
	if err := os.MkdirAll(c.Dir, 0o700); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	unlock, err := lockUp(c.Dir) // from here on `down` waits for the supervisor instead of finding nothing
	if err != nil {
		return err
	}
	defer unlock()
	if err := preflight(ctx, &c); err != nil {
		return err
	}
	u := &up{options: o, cluster: c, manifests: manifests, out: out, began: began, remote: supervisor.Connect(c.Dir)}
	ctx, cancel := context.WithTimeoutCause(ctx, o.Wait, fmt.Errorf("lab: not ready after %v", o.Wait))
	defer cancel()
	return u.run(ctx)
}

// resolve fills in defaults, and what the lab had before.
func resolve(o Options) (spec.Cluster, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return spec.Cluster{}, fmt.Errorf("lab: %w", err)
	}
	c, err := spec.Load(dir)
	if err != nil && !errors.Is(err, spec.ErrNotFound) {
		return c, err
	}
	c.Dir = dir
	if c.Podway, err = os.Executable(); err != nil {
		return c, fmt.Errorf("lab: %w", err)
	}
	c.Nodes = cmp.Or(o.Nodes, c.Nodes, defaultNodes)
	c.Networking = cmp.Or(o.Networking, c.Networking, spec.NetworkingPodway)
	c.ProxyMode = cmp.Or(o.ProxyMode, c.ProxyMode)
	c.UpstreamDNS = cmp.Or(o.UpstreamDNS, c.UpstreamDNS)
	c.Port = cmp.Or(o.Port, c.Port, DefaultPort)
	c.Kubernetes, err = filepath.Abs(cmp.Or(o.Kubernetes, beside(c.Podway, "podway-lab")))
	return c, err
}

func lockUp(dir string) (func(), error) {
	fd, err := unix.Open(filepath.Join(dir, upLock), unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	if err := unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("lab: another `podway up` is at work in %s", dir)
	}
	return func() { unix.Close(fd) }, nil
}

// up is one run of `podway up`.
type up struct {
	options   Options
	cluster   spec.Cluster
	manifests Manifests
	out       io.Writer
	began     time.Time
	remote    *supervisor.Remote
}

func (u *up) say(format string, args ...any) {
	fmt.Fprintf(u.out, "%6.2fs  %s\n", time.Since(u.began).Seconds(), fmt.Sprintf(format, args...))
}

func (u *up) run(ctx context.Context) error {
	st, err := u.remote.Status(ctx, -1)
	switch {
	case err == nil:
		return u.again(ctx, st)
	case !errors.Is(err, supervisor.ErrGone):
		return err
	case u.options.OnlyRefresh:
		return fmt.Errorf("lab: no cluster runs in %s; start it with: podway up", u.cluster.Dir)
	}
	if err := u.clean(ctx); err != nil {
		return err
	}
	if err := u.cluster.Save(); err != nil {
		return err
	}
	if err := startSupervisor(ctx, u.cluster); err != nil {
		return err
	}
	return u.follow(ctx, 0)
}

// clean ends what a supervisor that died has left: nobody can take its place beside running processes.
func (u *up) clean(ctx context.Context) error {
	host, err := cgroup.Detect()
	if err != nil {
		return err
	}
	group := host.Group(spec.CgroupName(u.cluster.Dir))
	if !group.Exists() {
		return nil
	}
	n, err := group.Kill(ctx)
	if err != nil {
		return err
	}
	if err := group.Remove(ctx); err != nil {
		return err
	}
	u.say("the supervisor was dead: ended %d processes that it left behind, and start again with the data that was kept", n)
	return nil
}

// again is `podway up` of a lab whose supervisor runs: that one repairs by itself, and we say what.
func (u *up) again(ctx context.Context, st supervisor.Status) error {
	if err := sameCluster(st.Cluster, u.cluster, u.options); err != nil {
		return err
	}
	u.cluster.Port, u.cluster.Nodes, u.cluster.Networking = st.Cluster.Port, st.Cluster.Nodes, st.Cluster.Networking
	u.say("it runs already (supervisor %d, since %s)", st.PID, st.Started.Format(time.DateTime))
	for _, s := range st.Restarted() {
		u.say("was repaired: %s", s)
	}
	for _, s := range st.Missing(st.Cluster.Networking != spec.NetworkingNone) {
		u.say("is being repaired: %s", s)
	}
	if err := u.refresh(ctx, st); err != nil {
		return err
	}
	kept := st.Cluster
	kept.ProxyMode = u.cluster.ProxyMode // a live cluster changes it as its manifests are applied
	if err := kept.Save(); err != nil {
		return err
	}
	if _, err := os.Stat(st.Cluster.Kubeconfig()); errors.Is(err, os.ErrNotExist) {
		if err := pki.HostKubeconfig(st.Cluster); err != nil {
			return err
		}
		u.say("was repaired: %s", st.Cluster.Kubeconfig())
	}
	return u.follow(ctx, len(st.Steps))
}

// sameCluster refuses what only a start can change.
func sameCluster(have, want spec.Cluster, asked Options) error {
	var what string
	switch {
	case asked.Nodes != 0 && have.Nodes != want.Nodes:
		what = fmt.Sprintf("has %d nodes", have.Nodes)
	case asked.Networking != "" && have.Networking != want.Networking:
		what = "has --networking " + have.Networking
	case asked.UpstreamDNS != "" && have.UpstreamDNS != want.UpstreamDNS:
		what = fmt.Sprintf("has --upstream-dns %q", have.UpstreamDNS)
	default:
		return nil
	}
	return misuse("lab: the cluster that runs in %s %s; to change that: podway down, then podway up (what is in the cluster is kept)", have.Dir, what)
}

// refresh brings images that were built anew into the running nodes.
func (u *up) refresh(ctx context.Context, st supervisor.Status) error {
	archives, err := supervisor.SaveImages(u.cluster)
	if err != nil {
		return err
	}
	for _, a := range archives {
		if err := importEverywhere(ctx, st, a); err != nil {
			return err
		}
		if err := markEverywhere(st, a); err != nil {
			return err
		}
		u.say("image %s is loaded again", filepath.Base(a))
	}
	return nil
}
