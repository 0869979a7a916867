package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/miekg/dns"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/trace"
)

// KernelWorld returns a Maker of worlds with real packets. Nothing is made in the caller's own network namespace, and all
// of it goes with the process. The error says what the machine lacks.
func KernelWorld(o KernelOptions) (Maker, error) {
	if err := nettest.Missing(); err != nil {
		return nil, err
	}
	if o.ProxyMode == ebpfMode {
		if err := nettest.Missing(nettest.EBPF); err != nil {
			return nil, err
		}
	}
	return func(context.Context) (World, error) { return newKernelWorld(o) }, nil
}

// ProxyMode is the mode of the service proxy on every node.
func (w *kernelWorld) ProxyMode() string { return cmp.Or(w.o.ProxyMode, defaultMode) }

type kernelWorld struct {
	o     KernelOptions
	dir   string
	net   *nettest.World
	nodes map[string]*kernelNode
	pods  map[model.Name]*kernelPod
	index *trace.Index
	decl  trace.View

	segments  int
	upstream  *dns.Server // for names outside the cluster
	snapshot  *model.Snapshot
	api       *apiObjects
	firstNode string
}

// kernelPod is a Pod with its own namespace, or one that lives in its node's.
type kernelPod struct {
	uid     string
	host    *nettest.Host
	node    *kernelNode
	server  *nettest.Server
	ports   map[nettest.Port]bool
	ingress *kernelNode // the process in a Pod of the ingress proxy
}

func newKernelWorld(o KernelOptions) (*kernelWorld, error) {
	w := &kernelWorld{o: o, nodes: map[string]*kernelNode{}, pods: map[model.Name]*kernelPod{}, segments: 1}
	var err error
	if w.dir, err = os.MkdirTemp("", "podway-scenario-"); err != nil {
		return nil, err
	}
	if err := os.Symlink(cmp.Or(o.Plugin, o.Program), filepath.Join(w.dir, podnet.PluginName)); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if w.net, err = nettest.New(); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if o.ProxyMode == ebpfMode {
		if err := w.net.UseCgroups(); err != nil {
			return nil, errors.Join(err, w.Close())
		}
	}
	if _, err = w.net.Outside().Serve("outside", nettest.Port{Proto: "tcp", Number: 80}); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	if w.upstream, err = serveUpstream(w.net.Outside()); err != nil {
		return nil, errors.Join(err, w.Close())
	}
	return w, nil
}

// Close implements World.
func (w *kernelWorld) Close() error {
	var all sync.WaitGroup
	for _, n := range w.nodes {
		all.Go(n.stop)
	}
	for _, p := range w.pods {
		if p.ingress != nil {
			all.Go(p.ingress.stop)
		}
	}
	all.Wait()
	var err error
	if w.upstream != nil {
		err = w.upstream.Shutdown()
	}
	if w.net != nil {
		err = errors.Join(err, w.net.Close())
	}
	return errors.Join(err, os.RemoveAll(w.dir))
}

// Step implements World: nodes, then what the hops program, then Pods, as a cluster starts.
func (w *kernelWorld) Step(ctx context.Context, f *File, i int) error {
	st := f.Steps[i].State
	w.snapshot, w.api, w.firstNode = st.Snapshot, st.api, st.entry()
	w.index, w.decl = trace.NewIndex(st.Snapshot), Declared(st, w.ProxyMode())
	if err := w.bringNodes(ctx, f, st); err != nil {
		return err
	}
	if err := w.removePods(ctx, st); err != nil {
		return err
	}
	if err := w.restart(ctx, f, st); err != nil {
		return err
	}
	if err := w.onEachNode(func(n *kernelNode) error { return n.apply(i, st.api) }); err != nil {
		return err
	}
	if err := w.addPods(ctx, st); err != nil {
		return err
	}
	if err := w.listen(st); err != nil {
		return err
	}
	if err := w.ingress(ctx, f, i); err != nil {
		return err
	}
	return w.net.Settle(ctx)
}

// bringNodes makes the nodes that are new and ends those that are gone.
func (w *kernelWorld) bringNodes(ctx context.Context, f *File, st *State) error {
	for name, n := range w.nodes {
		if !slices.Contains(st.Nodes, name) {
			n.stop()
			delete(w.nodes, name)
		}
	}
	type place struct {
		host *nettest.Host
		opts NodeOptions
	}
	var fresh []place
	for _, name := range st.Nodes {
		if w.nodes[name] != nil {
			continue
		}
		h, o, err := w.addNode(st, name)
		if err != nil {
			return err
		}
		fresh = append(fresh, place{h, o})
	}
	var mu sync.Mutex
	return each(fresh, func(p place) error {
		n, err := w.start(ctx, p.host, p.opts, f)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		w.nodes[n.name] = n
		return nil
	})
}

func (w *kernelWorld) addNode(st *State, name string) (*nettest.Host, NodeOptions, error) {
	o := NodeOptions{Node: name, ProxyMode: w.ProxyMode(), Proxy: st.Settings(w.ProxyMode()), DNS: st.DNS, Dir: filepath.Join(w.dir, name), Addrs: st.Snapshot.Nodes.At(name).Addrs}
	o.Without = slices.Clone(w.o.Without)
	if w.o.KubeProxy.Program != "" {
		o.Without = append(o.Without, trace.HopProxy)
	}
	segment, addrs, err := w.segment(o.Addrs)
	if err != nil {
		return nil, o, fmt.Errorf("node %s: %w", name, err)
	}
	h, err := w.net.AddNode(name, segment, addrs...)
	if err != nil {
		return nil, o, err
	}
	if err := os.Mkdir(o.Dir, 0o700); err != nil {
		return nil, o, err
	}
	if err := os.WriteFile(o.ResolvConf(), []byte("nameserver "+upstreamAddr.String()+"\n"), 0o600); err != nil {
		return nil, o, err
	}
	if o.Cgroup, o.BPF = h.Cgroup(), h.BPF(); o.Cgroup != "" {
		if err := os.Mkdir(o.NetnsDir(), 0o700); err != nil {
			return nil, o, err
		}
	}
	_, err = h.Serve("node:"+name, nettest.Port{Proto: "tcp", Number: 22})
	return h, o, err
}

// segment is the one that a node's addresses lie on, made when it is not there yet, and the addresses with its prefixes.
func (w *kernelWorld) segment(addrs []netip.Addr) (n int, out []netip.Prefix, err error) {
	for i, a := range addrs {
		on, ok := nettest.SegmentOf(a)
		if !ok || i > 0 && on != n {
			return 0, nil, fmt.Errorf("at level kernel the addresses of a node must be of one segment (10.90.0.0/24 and fd00:90::/64, 10.91.0.0/24 and fd00:91::/64, ...), not %v", addrs)
		}
		n = on
		out = append(out, onSegment(a))
	}
	for w.segments <= n {
		if _, err := w.net.AddSegment(); err != nil {
			return 0, nil, err
		}
		w.segments++
	}
	return n, out, nil
}

func (w *kernelWorld) onEachNode(f func(*kernelNode) error) error {
	var all []*kernelNode
	for _, n := range w.nodes {
		all = append(all, n)
	}
	return each(all, f)
}

// each runs f for all items at the same time and joins the errors.
func each[T any](items []T, f func(T) error) error {
	errs := make([]error, len(items))
	var all sync.WaitGroup
	for i, it := range items {
		all.Go(func() { errs[i] = f(it) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// senderHost is where a question's packets start, and the address they start from when it matters.
func (w *kernelWorld) senderHost(q trace.Question) (*nettest.Host, netip.Addr, error) {
	switch q.From {
	case flow.FromPod:
		name := nameOf(q.Sender)
		if p := w.pods[name]; p != nil && p.host != nil {
			return p.host, netip.Addr{}, nil
		}
		return nil, netip.Addr{}, fmt.Errorf("pod %s has no network at this level: it has no address", name)
	case flow.FromNode:
		return w.nodes[q.Sender].host, netip.Addr{}, nil
	}
	return w.net.Outside(), q.Addr, nil
}
