package scenario

import (
	"context"
	"fmt"
	"hash/fnv"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/trace"
)

const (
	patience     = 3 * time.Second        // for an answer that is expected: it comes at once, unless the machine is busy
	silence      = 300 * time.Millisecond // after which a connection that should be dropped is
	fewest, most = 12, 120                // connections per expectation
)

var defaultClient = netip.MustParseAddr("203.0.113.1")

// Ask implements World.
func (w *kernelWorld) Ask(ctx context.Context, st *State, a Ask, want Outcome) Outcome {
	switch a.Kind {
	case Slices:
		return st.slicesOf(a.Service)
	case Announce:
		return w.announced(ctx, a.Addr)
	case Dig:
		got := w.dig(ctx, a.Question)
		if err := w.agree(ctx, a.Question); err != nil && want.Matches(got) {
			return failure(err)
		}
		return got
	case Trace:
		p := w.trace(ctx, a.Question)
		if p.Err != nil {
			return failure(p.Err)
		}
		return broken(w.index, &p)
	}
	d, got := w.dial(ctx, st, a)
	if got.Result == "" {
		got = w.probe(ctx, st, d, want)
	}
	if want.Matches(got) {
		if err := w.agree(ctx, a.Question); err != nil {
			return failure(err)
		}
	}
	return got
}

func failure(err error) Outcome { return Outcome{Result: "error", Detail: err.Error()} }

// dial is one kind of connection, made as often as needed.
type dial struct {
	host *nettest.Host
	nettest.Dial
	url string // HTTP
}

// dial finds out where the question's packets go. The Outcome is set when there is nowhere to send them.
func (w *kernelWorld) dial(ctx context.Context, st *State, a Ask) (d dial, o Outcome) {
	q := a.Question
	var err error
	if d.host, d.Src, err = w.senderHost(q); err != nil {
		return d, failure(err)
	}
	d.Proto = string(q.Proto)
	if a.Kind == Get {
		d.url = q.Target
	}
	via, o := w.target(ctx, st, q, &d)
	if o.Result != "" || q.From != flow.FromOutside {
		return d, o
	}
	if !d.Src.IsValid() && d.Dst.Addr().Is4() {
		d.Src = defaultClient
	}
	d.Mark, err = w.via(st, q, d.Dst.Addr(), via)
	if err != nil {
		return d, failure(err)
	}
	return d, o
}

// target sets the destination; node is where a packet from outside enters by the declared way.
func (w *kernelWorld) target(ctx context.Context, st *State, q trace.Question, d *dial) (node string, o Outcome) {
	t, _, err := trace.ParseTarget(q.Target)
	if err != nil {
		return "", failure(err)
	}
	if t.Addr.IsValid() {
		d.Dst = netip.AddrPortFrom(t.Addr, t.Port)
		return "", o
	}
	named := t.Kind == "" && st.Snapshot.Nodes.At(t.Host) == nil
	if named && q.From != flow.FromOutside && !w.ingressHost(t) {
		return "", w.lookUp(ctx, st, q, t, d)
	}
	// Objects, node names and the ingress's own hosts are not looked up: the way begins where the API says.
	p := w.index.Walk(ctx, q, w.decl)
	if p.Err != nil {
		return "", failure(p.Err)
	}
	for _, s := range p.Steps {
		switch {
		case s.Hop == trace.HopName:
			continue
		case s.Flow.Dst.Addr().IsValid():
			d.Dst = s.Flow.Dst
			return s.Node, o
		case s.Hop == trace.HopIngress && w.nodes[s.Node] != nil:
			d.Dst = netip.AddrPortFrom(w.nodes[s.Node].host.Addrs[0], t.Port)
			return s.Node, o
		}
	}
	return "", Outcome{Result: dropped, Detail: "the target has no address"}
}

// ingressHost reports whether a URL's host is one that only an Ingress knows.
func (w *kernelWorld) ingressHost(t trace.Target) bool {
	if t.URL == nil {
		return false
	}
	_, parent, _ := strings.Cut(t.Host, ".")
	for ing := range w.snapshot.Ingresses.Values() {
		for _, r := range ing.Rules {
			if r.Host != "" && (r.Host == t.Host || r.Host == "*."+parent) {
				return true
			}
		}
	}
	return false
}

// lookUp asks the cluster's DNS for the target's addresses, as the client's resolver would.
func (w *kernelWorld) lookUp(ctx context.Context, st *State, q trace.Question, t trace.Target, d *dial) Outcome {
	for _, typ := range []string{"A", "AAAA"} {
		q.DNSType, q.Target = typ, t.Host
		o := w.dig(ctx, q)
		if o.Result == "NODATA" && typ == "A" {
			continue
		}
		if o.Result != "answer" {
			return o
		}
		for _, r := range o.Records {
			if _, data, _ := strings.Cut(r, " "); strings.HasPrefix(r, typ+" ") {
				a, err := netip.ParseAddr(data)
				if err != nil {
					return failure(err)
				}
				d.Dst = netip.AddrPortFrom(a, w.portOf(st, q, t))
				return Outcome{}
			}
		}
	}
	return Outcome{Result: "NODATA"}
}

// portOf is the port of the target, or the first of the Service it names.
func (w *kernelWorld) portOf(st *State, q trace.Question, t trace.Target) uint16 {
	if t.Port != 0 {
		return t.Port
	}
	ns, _, _ := strings.Cut(q.Sender, "/")
	name, rest, dotted := strings.Cut(t.Host, ".")
	if dotted {
		ns, _, _ = strings.Cut(rest, ".")
	}
	if svc := st.Snapshot.Services.At(model.N(ns, name)); svc != nil && len(svc.Ports) > 0 {
		return svc.Ports[0].Port
	}
	return 0
}

// via is the socket mark that makes packets from outside enter by a node: the one that the line says, or the declared
// one when the address is on no segment and so nobody can answer for it. 0 lets the outside host find the way.
func (w *kernelWorld) via(st *State, q trace.Question, dst netip.Addr, declared string) (int, error) {
	node := q.Node
	if node == "" {
		if _, ok := nettest.SegmentOf(dst); ok {
			return 0, nil
		}
		if node = declared; node == "" {
			node = st.entry()
		}
	}
	for _, a := range w.nodes[node].host.Addrs {
		if a.Is4() == dst.Is4() {
			return w.net.Outside().Via(a)
		}
	}
	return 0, fmt.Errorf("node %s has no address of the family of %s", node, dst)
}

// entry is the node where packets from outside enter when nothing says otherwise: the first ready one by name.
func (s *State) entry() string {
	names := slices.Sorted(slices.Values(s.Nodes))
	for _, n := range names {
		if s.Snapshot.Nodes.At(n).Ready {
			return n
		}
	}
	return names[0]
}

// once makes one connection. The first UDP one of a question always has the same source port, so that a connection that
// the kernel still tracks from an earlier step is used again, as a long-lived client would.
func (d dial) once(ctx context.Context, try int, timeout time.Duration) nettest.Reply {
	d.Timeout = timeout
	if d.url != "" {
		return d.host.Get(ctx, d.Dial, d.url, nil)
	}
	if d.Proto == "udp" && try == 0 {
		h := fnv.New32a()
		fmt.Fprint(h, d.host.Name, d.Src, d.Dst)
		d.SrcPort = uint16(40000 + h.Sum32()%20000)
	}
	return d.host.Connect(ctx, d.Dial)
}

// probe connects until every expected end was seen, and often enough to see one that was not expected.
func (w *kernelWorld) probe(ctx context.Context, st *State, d dial, want Outcome) Outcome {
	timeout := patience
	if want.Result == dropped {
		timeout = silence
	}
	timeout *= time.Duration(max(1, w.o.Slow))
	var got Outcome
	seen, from := map[string]bool{}, map[string]bool{}
	for try := range most {
		r := d.once(ctx, try, timeout)
		one := st.replyOutcome(r)
		if try == 0 {
			got = one
		}
		if one.Result != got.Result || one.Status != got.Status {
			one.Detail = fmt.Sprintf("connection %d of a client that before had %s", try+1, got)
			return one
		}
		if r.Result != nettest.Reached {
			return got
		}
		seen[one.Pods[0]], from[one.From] = true, true
		if try+1 >= fewest && (len(seen) >= len(want.Pods) || want.Sticky) {
			break
		}
	}
	got.Pods, got.From = keys(seen), strings.Join(keys(from), " or ")
	if want.Sticky && len(got.Pods) == 1 && slices.Contains(want.Pods, got.Pods[0]) {
		got.Pods, got.Sticky = want.Pods, true
	}
	return got
}

func keys(m map[string]bool) []string {
	var out []string
	for k := range m {
		if k != "" {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return out
}

// replyOutcome puts a client's reply in the words of the language.
func (s *State) replyOutcome(r nettest.Reply) Outcome {
	o := Outcome{Result: string(r.Result)}
	if r.Result != nettest.Reached {
		o.Detail = fmt.Sprint(r.Err)
		return o
	}
	o.Pods = []string{strings.Replace(r.Who, "node:", "node ", 1)}
	if r.Saw.IsValid() {
		o.From = s.owner(r.Saw.Addr())
	}
	if r.Status != 0 {
		o.Result, o.Status, o.Location = "status", r.Status, r.Header.Get("Location")
		if len(r.Cert) > 0 {
			o.Cert = r.Cert[0]
		}
	}
	return o
}
