// Package packets tries a backend of the service proxy with real packets between network namespaces: a node with the proxy
// under test, another without, Pods on both and clients outside. Every backend passes the same tests. It owns no rule.
package packets

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// Subject is a backend to be tried.
type Subject struct {
	// New opens the backend in a node's namespace, as a new process that knows nothing would.
	New func(ns *netns.NS) proxy.Backend
	// Protos are the transports; none = tcp and udp.
	Protos []flow.Proto
	// Elsewhere are those of them with which the same backend is tried on another machine: here only the others are.
	Elsewhere []flow.Proto
	// Settings are those of the proxy.
	Settings proxy.Settings
	// Beside is called before the proxy starts, to put others' rules on node A.
	Beside func(*Lab)
	// Slow is a machine on which answers take long: an emulated one.
	Slow bool
}

// Lab is a network: node A with the proxy under test, B without, three Pods on A (a1, a2, a3), one on B (b1), and clients
// outside, which enter by A.
type Lab struct {
	T    *testing.T
	W    *nettest.World
	A, B *nettest.Host
	Pods map[string]*nettest.Host

	subject      Subject
	backend      proxy.Backend
	proxy        *proxy.Proxy
	builder      *model.Builder
	have         *model.Snapshot
	connections  *conntrack.Conn
	viaA4, viaA6 int
}

// PodAddrs are the Pods' addresses, IPv4 and IPv6; their node follows from the third number.
var PodAddrs = map[string][2]string{
	"a1": {"10.244.1.1", "fd00:10:1::1"}, "a2": {"10.244.1.2", "fd00:10:1::2"}, "a3": {"10.244.1.3", "fd00:10:1::3"},
	"b1": {"10.244.2.1", "fd00:10:2::1"},
}

// SSH is the port on which a process of node A itself listens, on all addresses.
const SSH = 22

// New makes a Lab that ends with the test.
func New(t *testing.T, s Subject) *Lab {
	t.Helper()
	if len(s.Protos) == 0 {
		s.Protos = []flow.Proto{flow.TCP, flow.UDP}
	}
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	l := &Lab{T: t, W: w, Pods: map[string]*nettest.Host{}, builder: model.NewBuilder(nil), subject: s}
	l.A, l.B = l.node("node-a", 1), l.node("node-b", 2)
	for name, addrs := range PodAddrs {
		l.pod(name, addrs)
	}
	_, err = l.A.Serve("node-a", l.ports(SSH)...)
	l.OK(err)
	for i, other := range []*nettest.Host{l.B, l.A} {
		here := []*nettest.Host{l.A, l.B}[i]
		l.OK(here.Route(netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", 2-i)), other.Addrs[0]))
		l.OK(here.Route(netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/64", 2-i)), other.Addrs[1]))
	}
	l.OK(w.Outside().Do(func() error { // clients of a whole network, not of single addresses
		return os.WriteFile("/proc/sys/net/ipv6/ip_nonlocal_bind", []byte("1"), 0)
	}))
	for _, to := range []string{"10.96.0.0/16", "198.51.100.0/24", "fd00:96::/112"} { // SCTP does not follow a socket's mark
		p := netip.MustParsePrefix(to)
		l.OK(w.Outside().Route(p, l.A.Addrs[familyOf(p)]))
	}
	l.viaA4, err = w.Outside().Via(l.A.Addrs[0])
	l.OK(err)
	l.viaA6, err = w.Outside().Via(l.A.Addrs[1])
	l.OK(err)
	l.connections, err = conntrack.Open(l.A.NS())
	l.OK(err)
	t.Cleanup(func() { l.connections.Close() })
	if s.Beside != nil {
		s.Beside(l)
	}
	l.Restart()
	return l
}

func familyOf(p netip.Prefix) int {
	if p.Addr().Is4() {
		return 0
	}
	return 1
}

func (l *Lab) pod(name string, addrs [2]string) {
	node := l.A
	if name[0] == 'b' {
		node = l.B
	}
	pod, err := l.W.AddPod(node, name, netip.MustParseAddr(addrs[0]), netip.MustParseAddr(addrs[1]))
	l.OK(err)
	_, err = pod.Serve(name, l.ports(8080)...)
	l.OK(err)
	l.Pods[name] = pod
}

func (l *Lab) ports(number uint16) (out []nettest.Port) {
	for _, p := range l.subject.Protos {
		out = append(out, nettest.Port{Proto: string(p), Number: number})
	}
	return out
}

// OK fails the test on an error.
func (l *Lab) OK(err error) {
	l.T.Helper()
	if err != nil {
		l.T.Fatal(err)
	}
}

func (l *Lab) node(name string, n int) *nettest.Host {
	h, err := l.W.AddNode(name, 0)
	l.OK(err)
	l.builder.Put(&model.Node{Name: name, Ready: true, Addrs: h.Addrs, PodCIDRs: []netip.Prefix{
		netip.MustParsePrefix(fmt.Sprintf("10.244.%d.0/24", n)), netip.MustParsePrefix(fmt.Sprintf("fd00:10:%d::/64", n))}})
	return h
}

// Restart starts the proxy as a new process that knows nothing.
func (l *Lab) Restart() {
	l.backend = l.subject.New(l.A.NS())
	l.proxy = proxy.New(proxy.Options{Node: "node-a", Backend: l.backend, Connections: l.connections, Settings: l.subject.Settings})
	l.have = nil
}

// Backend is the one that runs.
func (l *Lab) Backend() proxy.Backend { return l.backend }

// Apply changes the cluster and applies it.
func (l *Lab) Apply(objs ...any) {
	l.T.Helper()
	for _, o := range objs {
		l.builder.Put(o)
	}
	s := l.builder.Snapshot(time.Now())
	_, err := l.proxy.Apply(l.T.Context(), s, model.Diff(l.have, s))
	l.OK(err)
	l.have = s
}

// Want is one connection and what must become of it.
type Want struct {
	Name   string
	From   *nettest.Host
	Dial   nettest.Dial
	Result nettest.Result
	Who    []string   // any of these answers
	Saw    netip.Addr // the source address that the endpoint sees, when it matters
}

// Check makes each connection with each transport.
func (l *Lab) Check(ws ...Want) {
	l.T.Helper()
	for _, w := range ws {
		for _, proto := range l.subject.Protos {
			if slices.Contains(l.subject.Elsewhere, proto) {
				continue
			}
			w.Dial.Proto, w.Dial.Timeout = string(proto), l.patience()
			if w.Result == nettest.Dropped {
				w.Dial.Timeout = l.silence()
			}
			r := w.From.Connect(l.T.Context(), w.Dial)
			if w.From == l.A && proto == flow.UDP && w.Result == nettest.Refused && errors.Is(r.Err, syscall.EPERM) {
				continue // the kernel tells the sender at once that its datagram was dropped; "refused" comes with the next
			}
			if r.Result != w.Result || len(w.Who) > 0 && !slices.Contains(w.Who, r.Who) || w.Saw.IsValid() && r.Saw.Addr() != w.Saw {
				l.T.Errorf("%s, %s: got %s by %q who saw %s (%v); want %s by %v who sees %s", w.Name, proto, r.Result, r.Who, r.Saw, r.Err, w.Result, w.Who, w.Saw)
			}
		}
	}
}

// patience is how long an answer may take: a busy machine is not a broken one.
func (l *Lab) patience() time.Duration {
	if l.subject.Slow {
		return 15 * time.Second
	}
	return 5 * time.Second
}

// silence is how long no answer must come.
func (l *Lab) silence() time.Duration {
	if l.subject.Slow {
		return 600 * time.Millisecond
	}
	return 200 * time.Millisecond
}

// Outside is a connection from the client behind the outside host that enters at node A.
func (l *Lab) Outside(dst netip.AddrPort) nettest.Dial {
	if dst.Addr().Is4() {
		return nettest.Dial{Dst: dst, Src: Client4, Mark: l.viaA4}
	}
	return nettest.Dial{Dst: dst, Src: Client6, Mark: l.viaA6}
}

// NodePort is node A's, by family: 0 is IPv4, 1 is IPv6.
func (l *Lab) NodePort(i int) netip.AddrPort { return netip.AddrPortFrom(l.A.Addrs[i], nodePort) }

// Stays connects n times and returns the only one who answers.
func (l *Lab) Stays(dst netip.AddrPort, n int) string {
	l.T.Helper()
	first := ""
	for range n {
		r := l.Pods["a3"].Connect(l.T.Context(), nettest.Dial{Proto: "tcp", Dst: dst, Timeout: l.patience()})
		if first == "" {
			first = r.Who
		}
		if r.Who == "" || r.Who != first {
			l.T.Fatalf("%s: got %q (%v) after %q", dst, r.Who, r.Err, first)
		}
	}
	return first
}

// Datagram sends from a fixed port, so that the kernel sees one connection over all calls.
func (l *Lab) Datagram(from string, port uint16, dst netip.AddrPort) nettest.Reply {
	return l.Pods[from].Connect(l.T.Context(), nettest.Dial{Proto: "udp", Dst: dst, Src: netip.MustParseAddr(PodAddrs[from][0]), SrcPort: port, Timeout: l.patience()})
}

// associations are the tracked SCTP connections to an address.
func (l *Lab) associations(dst netip.AddrPort) []conntrack.Entry {
	l.T.Helper()
	es, err := l.connections.List(l.T.Context(), flow.SCTP.Number())
	l.OK(err)
	return slices.DeleteFunc(es, func(e conntrack.Entry) bool { return e.Dst != dst })
}

// tracked returns the tracked UDP connection to an address.
func (l *Lab) tracked(dst netip.AddrPort) conntrack.Entry {
	l.T.Helper()
	es, err := l.connections.List(l.T.Context(), conntrack.UDP)
	l.OK(err)
	for _, e := range es {
		if e.Dst == dst {
			return e
		}
	}
	l.T.Fatalf("no UDP connection to %s is tracked", dst)
	return conntrack.Entry{}
}
