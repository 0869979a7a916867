package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
)

// NodeOptions say for which node, or for the ingress proxy of which Pod, a process runs hops.
type NodeOptions struct {
	Node    string
	Dir     string       // for files that the hops keep; it exists and belongs to this node alone
	Addrs   []netip.Addr // of the node
	Ingress bool         // the hop ingress alone, in a Pod
	Netns   string       // path of the network namespace; "" = that of the process
	// ProxyMode is the backend of the hop proxy; "" = the default. Proxy is what the scenario's proxy.yaml means in it.
	ProxyMode string
	Proxy     proxy.Settings
	// DNS is the Corefile of the node's DNS server; "" = none.
	DNS string
	// Without names hops that another program stands in for.
	Without []string
	// Cgroup and BPF are the node's control group and a folder on a BPF file system; "" = it has none of its own.
	Cgroup, BPF string
}

// Hops are those of all names that the node runs.
func (o NodeOptions) Hops(all []string) []string {
	return slices.DeleteFunc(slices.Clone(all), func(n string) bool { return slices.Contains(o.Without, n) })
}

// What NodeHops must open the hops with, so that the runner finds them.
const (
	DNSPort      = 10053 // of the hop dns, on the node's addresses
	IngressHTTP  = 8080  // of the hop ingress, in its Pod
	IngressHTTPS = 8443
)

// ConfigPath, StoreDir and ResolvConf are the files in Dir that the runner and the hops share.
func (o NodeOptions) ConfigPath() string { return filepath.Join(o.Dir, "podnet.json") }

// StoreDir is where the CNI plugin keeps its reservations.
func (o NodeOptions) StoreDir() string { return filepath.Join(o.Dir, "cni") }

// ResolvConf names the server for names outside the cluster.
func (o NodeOptions) ResolvConf() string { return filepath.Join(o.Dir, "resolv.conf") }

// NetnsDir has a link to the network namespace of each of the node's Pods.
func (o NodeOptions) NetnsDir() string { return filepath.Join(o.Dir, "netns") }

// env tells the node's process, beside other variables, where its programs are to be attached and pinned.
func (o NodeOptions) env(others []string) []string {
	if o.Cgroup == "" {
		return others
	}
	return append(slices.Clone(others), "PODWAY_CGROUP="+o.Cgroup, "PODWAY_BPF="+o.BPF, "PODWAY_NETNS="+o.NetnsDir())
}

// NodeHops opens the hops of the node in whose network namespace this process runs, in request order.
type NodeHops func(NodeOptions) ([]hop.Hop, error)

// request is what the runner asks of a node's process, one JSON value after another on its standard input.
type request struct {
	Op       string // "open", "load", "apply", "ask"
	Options  NodeOptions
	Scenario []byte     // open, load
	Step     int        // apply
	Hop      string     // ask
	Flow     *flow.Flow // ask
}

// response answers a request, in order, on standard output.
type response struct {
	Error      string
	NotChecked bool // the error is trace.ErrNotChecked
	Verdict    flow.Verdict
}

// NodeMain is the process of one node at level kernel: it opens the hops, applies the scenario's steps and tells what is
// programmed, until its input ends. It returns the exit code.
func NodeMain(ctx context.Context, in io.Reader, out io.Writer, open NodeHops) int {
	n := &node{open: open}
	requests, responses := json.NewDecoder(in), json.NewEncoder(out)
	for {
		var r request
		if err := requests.Decode(&r); err != nil {
			if errors.Is(err, io.EOF) {
				return 0
			}
			return 1
		}
		var resp response
		v, err := n.do(ctx, r)
		if err != nil {
			resp.Error, resp.NotChecked = err.Error(), errors.Is(err, trace.ErrNotChecked)
		}
		resp.Verdict = v
		if err := responses.Encode(resp); err != nil {
			return 1
		}
	}
}

type node struct {
	open NodeHops
	name string
	hops []hop.Hop
	file *File
	last *model.Snapshot
}

func (n *node) do(ctx context.Context, r request) (v flow.Verdict, err error) {
	switch r.Op {
	case "open", "load":
		if n.file, err = Parse("scenario", r.Scenario); err != nil {
			return v, err
		}
		if r.Op == "open" {
			n.name = r.Options.Node
			n.hops, err = n.open(r.Options)
		}
		return v, err
	case "apply":
		st := n.file.Steps[r.Step].State
		if slices.Contains(st.Failing, n.name) {
			if v.Why, err = n.fail(ctx, st.Snapshot); err != nil {
				return v, err
			}
		}
		return v, n.apply(ctx, st.Snapshot)
	case "ask":
		for _, h := range n.hops {
			if h.Name() == r.Hop {
				return h.Programmed(ctx, *r.Flow)
			}
		}
		return v, fmt.Errorf("hop %s: %w", r.Hop, trace.ErrNotChecked)
	}
	return v, fmt.Errorf("unknown request %q", r.Op)
}

// apply brings all hops to the snapshot, telling each what differs from the last one.
func (n *node) apply(ctx context.Context, s *model.Snapshot) error {
	c := model.Diff(n.last, s)
	for _, h := range n.hops {
		if _, err := h.Apply(ctx, s, c); err != nil {
			return fmt.Errorf("apply: hop %s: %w", h.Name(), err)
		}
	}
	n.last = s
	return nil
}

// fail has the hop proxy apply the snapshot while nothing can be written, and forgets what the hops have, as the agent
// does after an error. It returns what the hop said of it.
func (n *node) fail(ctx context.Context, s *model.Snapshot) (said string, err error) {
	for _, h := range n.hops {
		if h.Name() != trace.HopProxy {
			continue
		}
		var failed error
		if err := powerless(func() { _, failed = h.Apply(ctx, s, model.Diff(n.last, s)) }); err != nil {
			return "", err
		}
		if failed != nil {
			n.last, said = nil, failed.Error()
		}
	}
	return said, nil
}
