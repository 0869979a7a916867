package scenario

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path/filepath"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
)

// NodeOptions say for which node, or for the ingress proxy of which Pod, a process runs hops.
type NodeOptions struct {
	Node    string
	Dir     string       // for files that the hops keep; it exists and belongs to this node alone
	Addrs   []netip.Addr // of the node
	Ingress bool         // the hop ingress alone, in a Pod
	// ProxyMode is the backend of the hop proxy; "" = the default.
	ProxyMode string
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

// NodeHops opens the hops of the node in whose network namespace this process runs, in request order.
type NodeHops func(NodeOptions) ([]hop.Hop, error)

// request is what the runner asks of a node's process, one JSON value after another on its standard input.
type request struct {
	Op       string // "open", "apply", "ask"
	Options  NodeOptions
	Scenario []byte     // open
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
	hops []hop.Hop
	file *File
	last *model.Snapshot
}

func (n *node) do(ctx context.Context, r request) (v flow.Verdict, err error) {
	switch r.Op {
	case "open":
		if n.file, err = Parse("scenario", r.Scenario); err != nil {
			return v, err
		}
		n.hops, err = n.open(r.Options)
		return v, err
	case "apply":
		return v, n.apply(ctx, n.file.Steps[r.Step].State.Snapshot)
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
