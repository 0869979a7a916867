package node

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podway/podway/internal/lab/api"
	"github.com/podway/podway/internal/lab/process"
	"github.com/podway/podway/internal/lab/spec"
)

// machine is the node as its first process sees it.
type machine struct {
	settings
	node   spec.Node
	reaper *process.Reaper
	report *events
	began  time.Time
	wg     sync.WaitGroup
}

// Init is the node's first process: it runs containerd and the kubelet, reaps what they leave behind, and goes on
// until it is killed, with which the node is gone.
func Init() error {
	unix.CloseOnExec(eventsFD)
	m := &machine{report: &events{to: os.NewFile(eventsFD, "events")}, began: time.Now()}
	signal.Ignore(unix.SIGPIPE) // the supervisor may go away
	b, err := os.ReadFile(runDir + "/node.json")
	if err == nil {
		err = json.Unmarshal(b, &m.settings)
	}
	if err != nil {
		return m.fail(fmt.Errorf("node: %w", err))
	}
	m.node = m.Cluster.Node(m.Index)
	ctx, stop := signal.NotifyContext(context.Background(), unix.SIGTERM)
	defer stop()
	m.reaper = process.NewReaper(context.Background())
	if err := m.run(ctx); err != nil {
		return m.fail(err)
	}
	return nil
}

func (m *machine) fail(err error) error {
	m.report.send(Event{Error: err.Error()})
	return err
}

// step tells that something is done.
func (m *machine) step(name string) {
	m.report.send(Event{Step: name, Took: time.Since(m.began)})
}

func (m *machine) run(ctx context.Context) error {
	containerd := m.service("containerd", m.Cluster.Runtime.Containerd, []string{"--config", runDir + "/containerd.toml"}, dial("unix", containerdSock))
	m.keep(ctx, containerd)
	if err := containerd.WaitReady(ctx); err != nil {
		return nil
	}
	m.step(StepContainerd)
	first, rest, err := archives()
	if err != nil {
		return err
	}
	if err := m.importImages(ctx, first); err != nil {
		return err
	}
	if err := m.awaitServer(ctx); err != nil {
		return err
	}
	kubelet := m.service("kubelet", binDir+"/podway-lab", kubeletArgs(m.node), healthy("http://127.0.0.1:10248/healthz"))
	m.keep(ctx, kubelet)
	if err := m.importImages(ctx, rest); err != nil {
		return err
	}
	m.step(StepImages)
	if kubelet.WaitReady(ctx) == nil {
		m.step(StepKubelet)
	}
	m.wg.Wait()
	return nil
}

func (m *machine) service(name, program string, args []string, ready func(context.Context) error) *process.Service {
	return &process.Service{
		Name: name, Log: m.node.Log(name), Ready: ready,
		Start: func() (process.Process, error) {
			return m.reaper.Start(process.Command{Path: program, Args: args, Env: os.Environ(), Log: "/var/log/" + name + ".log"})
		},
	}
}

func (m *machine) keep(ctx context.Context, s *process.Service) {
	s.OnChange(func(st process.Status) { m.report.send(Event{Service: &st}) })
	m.wg.Go(func() { s.Run(ctx) })
}

// awaitServer waits until the API server lets this node register: a kubelet that comes too early pauses for seconds.
func (m *machine) awaitServer(ctx context.Context) error {
	c, err := api.New(spec.Server(), pkiDir, m.node.Name, nil)
	if err != nil {
		return err
	}
	for {
		probe, cancel := context.WithTimeout(ctx, 2*time.Second)
		err := c.MayRegister(probe, m.node.Name)
		cancel()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// archives lists the archives to import: those without which the node does not get ready, and the others.
func archives() (first, rest []string, err error) {
	all, err := filepath.Glob(imagesDir + "/*.tar")
	if err != nil {
		return nil, nil, fmt.Errorf("node: %w", err)
	}
	for _, a := range all {
		if base := filepath.Base(a); base == "pause.tar" || base == "podway.tar" {
			first = append(first, a)
		} else {
			rest = append(rest, a)
		}
	}
	return first, rest, nil
}

// importImages imports the archives that containerd does not have yet.
func (m *machine) importImages(ctx context.Context, archives []string) error {
	for _, a := range archives {
		if err := m.importImage(ctx, a); err != nil {
			return err
		}
	}
	return nil
}

func (m *machine) importImage(ctx context.Context, archive string) error {
	mark, version, err := importMark("/var/lib/containerd", archive)
	if err != nil {
		return err
	}
	if have, err := os.ReadFile(mark); err == nil && string(have) == version {
		return nil
	}
	err = m.reaper.Run(ctx, process.Command{
		Path: m.Cluster.Runtime.Ctr, Args: ImportArgs(archive), Env: os.Environ(), Log: "/var/log/images.log",
	})
	if err != nil {
		return fmt.Errorf("node: import image %s: %w", path.Base(archive), err)
	}
	slog.Info("image imported", "archive", path.Base(archive))
	if err := os.WriteFile(mark, []byte(version), 0o644); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

// importMark is a file in containerd's own folder that remembers which version of an archive was imported: asking
// containerd itself costs a process per start.
func importMark(containerd, archive string) (file, version string, err error) {
	st, err := os.Stat(archive)
	if err != nil {
		return "", "", fmt.Errorf("node: %w", err)
	}
	return filepath.Join(containerd, ".imported-"+filepath.Base(archive)), st.ModTime().Format(time.RFC3339Nano), nil
}

// MarkImported notes, from the host, that a node has an archive.
func MarkImported(c spec.Cluster, name, archive string) error {
	mark, version, err := importMark(filepath.Join(c.Dir, "nodes", name, kept["var/lib/containerd"]), archive)
	if err != nil {
		return err
	}
	if err := os.WriteFile(mark, []byte(version), 0o644); err != nil {
		return fmt.Errorf("node: %w", err)
	}
	return nil
}

// ImportArgs are ctr's arguments to import an archive (a path in the node) where the kubelet looks.
func ImportArgs(archive string) []string {
	return []string{"--address", containerdSock, "--namespace", "k8s.io", "images", "import", archive}
}

// ImagePath is the place in a node of an archive in the lab's folder of images.
func ImagePath(archive string) string { return path.Join(imagesDir, filepath.Base(archive)) }

func dial(network, address string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

func healthy(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("node: %s answers %s", url, resp.Status)
		}
		return nil
	}
}
