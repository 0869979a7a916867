package agent

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/podway/podway/internal/hop"
	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/nettest"
)

// lab is a node with two Pods behind a Service, and a proxy on it.
type lab struct {
	t        *testing.T
	node     *nettest.Host
	client   *nettest.Host
	snapshot *model.Snapshot
	log      bytes.Buffer
}

var vip = netip.MustParseAddrPort("10.96.0.7:80")

func newLab(t *testing.T) *lab {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.NFT, nettest.IPTables, nettest.EBPF)
	w, err := nettest.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	l := &lab{t: t}
	l.ok(w.UseCgroups())
	l.node, err = w.AddNode("node-a", 0)
	l.ok(err)
	for name, path := range map[string]string{"PODWAY_CGROUP": l.node.Cgroup(), "PODWAY_BPF": l.node.BPF(), "PODWAY_NETNS": t.TempDir()} {
		t.Setenv(name, path)
	}
	b := model.NewBuilder(nil)
	b.Put(&model.Node{Name: "node-a", Ready: true, Addrs: l.node.Addrs, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.0/24")}})
	slice := &model.EndpointSlice{Name: model.N("shop", "web-1"), Service: model.N("shop", "web"), AddressType: "IPv4",
		Ports: []model.EndpointPort{{Name: "tcp", Protocol: model.TCP, Port: 8080}}}
	for i := range 2 {
		a := netip.MustParseAddr(fmt.Sprintf("10.244.1.%d", i+1))
		pod, err := w.AddPod(l.node, fmt.Sprintf("a%d", i+1), a)
		l.ok(err)
		_, err = pod.Serve(fmt.Sprintf("a%d", i+1), nettest.Port{Proto: "tcp", Number: 8080})
		l.ok(err)
		slice.Endpoints = append(slice.Endpoints, model.Endpoint{Addr: a, Ready: true, Serving: true, Node: "node-a"})
	}
	l.client, err = w.AddPod(l.node, "client", netip.MustParseAddr("10.244.1.9"))
	l.ok(err)
	b.Put(slice)
	b.Put(&model.Service{Name: model.N("shop", "web"), Type: model.ClusterIP, ClusterIPs: []netip.Addr{vip.Addr()},
		Ports: []model.ServicePort{{Name: "tcp", Protocol: model.TCP, Port: 80}}})
	l.snapshot = b.Snapshot(time.Now())
	return l
}

func (l *lab) ok(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

func (l *lab) proxy(mode string) hop.Hop {
	l.t.Helper()
	hops, err := Hops([]string{"proxy"}, Options{Node: "node-a", NS: l.node.NS(), ProxyMode: mode, Log: slog.New(slog.NewTextHandler(&l.log, nil)),
		ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}})
	l.ok(err)
	return hops[0]
}

// has are the parts of podway that the node has.
func (l *lab) has() string {
	l.t.Helper()
	parts, err := Leftovers(l.t.Context(), l.cleanup(), false)
	l.ok(err)
	var names []string
	for _, p := range parts {
		names = append(names, p.Name)
	}
	return strings.Join(names, ", ")
}

func (l *lab) cleanup() CleanupOptions {
	return CleanupOptions{NS: l.node.NS(), CNIBin: l.t.TempDir(), CNIConf: l.t.TempDir(), Podnet: podnet.Options{Node: "node-a"}}
}

// knock opens connections until ctx ends and counts those that failed.
func (l *lab) knock(ctx context.Context) (tried, failed *atomic.Int64, done chan struct{}) {
	tried, failed, done = &atomic.Int64{}, &atomic.Int64{}, make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			r := l.client.Connect(context.Background(), nettest.Dial{Proto: "tcp", Dst: vip, Timeout: 3 * time.Second})
			tried.Add(1)
			if r.Result != nettest.Reached {
				failed.Add(1)
				l.t.Logf("a new connection: %s %v", r.Result, r.Err)
			}
		}
	}()
	return tried, failed, done
}

// whole is what a node has of a mode: ebpf keeps the rules of nftables.
var whole = map[string]string{"nftables": "proxy nftables", "iptables": "proxy iptables", "ebpf": "proxy nftables, proxy ebpf"}

func TestAModeFollowsAnotherWithoutLosingAConnection(t *testing.T) {
	for _, c := range [][2]string{{"iptables", "nftables"}, {"nftables", "iptables"}, {"nftables", "ebpf"}, {"ebpf", "nftables"},
		{"iptables", "ebpf"}, {"ebpf", "iptables"}} {
		t.Run(c[0]+" to "+c[1], func(t *testing.T) {
			l := newLab(t)
			_, err := l.proxy(c[0]).Apply(t.Context(), l.snapshot, model.Everything())
			l.ok(err)
			if got := l.has(); got != whole[c[0]] {
				t.Fatalf("at first: %q", got)
			}
			var open net.Conn
			l.ok(l.client.Do(func() (err error) {
				open, err = net.DialTimeout("tcp", vip.String(), 5*time.Second)
				return err
			}))
			defer open.Close()
			ctx, stop := context.WithCancel(t.Context())
			tried, failed, done := l.knock(ctx)
			time.Sleep(100 * time.Millisecond)
			r, err := l.proxy(c[1]).Apply(t.Context(), l.snapshot, model.Everything())
			l.ok(err)
			time.Sleep(100 * time.Millisecond)
			stop()
			<-done
			if tried.Load() < 5 || failed.Load() > 0 {
				t.Errorf("%d of %d new connections failed", failed.Load(), tried.Load())
			}
			if got := l.has(); got != whole[c[1]] || len(r.Findings) > 0 {
				t.Errorf("afterwards: %q, findings %+v", got, r.Findings)
			}
			// Between nftables and ebpf the rules stay: nothing of the first is left in the second, only programs the other way.
			want := "from=" + c[0] + " to=" + c[1] + " reached=" + vip.String()
			if c != [2]string{"nftables", "ebpf"} && !strings.Contains(l.log.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, l.log.String())
			}
			l.same(c[1])
			l.ok(open.SetDeadline(time.Now().Add(5 * time.Second)))
			if _, err := open.Write([]byte("who\n")); err != nil {
				t.Errorf("the connection from before: %v", err)
			} else if n, err := open.Read(make([]byte, 100)); err != nil || n == 0 {
				t.Errorf("the connection from before: %d bytes, %v", n, err)
			}
		})
	}
}

// same asserts that a fresh process of the mode finds what it would write: nothing that it needs went with the old mode.
func (l *lab) same(mode string) {
	l.t.Helper()
	a, err := l.proxy(mode).Apply(l.t.Context(), l.snapshot, model.Everything())
	l.ok(err)
	if a.Changed != 0 {
		l.t.Errorf("a fresh process of mode %s had to change %d", mode, a.Changed)
	}
}

// A privileged process that starts before the agent of another mode ends the programs of mode ebpf, whose rules then serve.
func TestTheProgramsOfModeEBPFEndBeforeAnAgentThatMayNotEndThem(t *testing.T) {
	l := newLab(t)
	_, err := l.proxy("ebpf").Apply(t.Context(), l.snapshot, model.Everything())
	l.ok(err)
	ctx, stop := context.WithCancel(t.Context())
	tried, failed, done := l.knock(ctx)
	time.Sleep(50 * time.Millisecond)
	log := slog.New(slog.NewTextHandler(&l.log, nil))
	l.ok(prepareMode(t.Context(), "ebpf", log)) // a BPF file system is there
	if got := l.has(); got != whole["ebpf"] {
		t.Errorf("prepared for its own mode the node has %q", got)
	}
	l.ok(prepareMode(t.Context(), "iptables", log))
	time.Sleep(50 * time.Millisecond)
	stop()
	<-done
	if got := l.has(); got != whole["nftables"] || tried.Load() < 5 || failed.Load() > 0 {
		t.Errorf("the node has %q; %d of %d connections failed", got, failed.Load(), tried.Load())
	}
	before := l.log.Len()
	l.ok(prepareMode(t.Context(), "iptables", log))
	if l.log.Len() != before {
		t.Errorf("a second time: %s", l.log.String()[before:])
	}
}

// wrong is a backend whose rules do not do what is wanted.
type wrong struct{ proxy.Backend }

func (w wrong) Read(ctx context.Context, n proxy.Node) (proxy.Ruleset, error) {
	return w.Backend.Read(ctx, proxy.Node{Name: "another"})
}

func (w wrong) Render(p *proxy.Plan) proxy.Ruleset {
	return w.Backend.Render(&proxy.Plan{Node: p.Node})
}

func TestRulesThatAreNotProvenLeaveTheOldOnes(t *testing.T) {
	l := newLab(t)
	old, err := Backend("iptables", l.node.NS())
	l.ok(err)
	now, err := Backend("nftables", l.node.NS())
	l.ok(err)
	_, err = proxy.New(proxy.Options{Node: "node-a", Backend: old}).Apply(t.Context(), l.snapshot, model.Everything())
	l.ok(err)
	r, err := proxy.New(proxy.Options{Node: "node-a", Backend: wrong{now}, Others: []proxy.Backend{old}}).Apply(t.Context(), l.snapshot, model.Everything())
	l.ok(err)
	if got := l.has(); got != "proxy nftables, proxy iptables" {
		t.Errorf("the node has %q", got)
	}
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Cause, "not what was written") {
		t.Errorf("findings %+v", r.Findings)
	}
}

func TestOldRulesComeBackWhenAServiceIsNotReachedWithoutThem(t *testing.T) {
	l := newLab(t)
	old, err := Backend("iptables", l.node.NS())
	l.ok(err)
	now, err := Backend("nftables", l.node.NS())
	l.ok(err)
	_, err = proxy.New(proxy.Options{Node: "node-a", Backend: old}).Apply(t.Context(), l.snapshot, model.Everything())
	l.ok(err)
	dials := 0
	p := proxy.New(proxy.Options{Node: "node-a", Backend: now, Others: []proxy.Backend{old}, Dial: func(context.Context, netip.AddrPort) error {
		if dials++; dials > 1 {
			return net.ErrClosed
		}
		return nil
	}})
	r, err := p.Apply(t.Context(), l.snapshot, model.Everything())
	l.ok(err)
	if got := l.has(); got != "proxy nftables, proxy iptables" || dials != 2 {
		t.Errorf("the node has %q after %d connections", got, dials)
	}
	if len(r.Findings) != 1 || !strings.Contains(r.Findings[0].Cause, "they were put back") {
		t.Errorf("findings %+v", r.Findings)
	}
}

func TestCleanupLeavesAnEmptyNodeAndWhatIsOthers(t *testing.T) {
	l := newLab(t)
	l.ok(l.node.Do(func() error { return restore("*nat\n:KUBE-MINE-NOT - [0:0]\n-A PREROUTING -j KUBE-MINE-NOT\nCOMMIT\n") }))
	for _, mode := range []string{"iptables", "nftables"} {
		b, err := Backend(mode, l.node.NS())
		l.ok(err)
		_, err = proxy.New(proxy.Options{Node: "node-a", Backend: b}).Apply(t.Context(), l.snapshot, model.Everything())
		l.ok(err)
	}
	parts, err := Leftovers(t.Context(), l.cleanup(), false)
	l.ok(err)
	if len(parts) != 2 || !strings.HasPrefix(parts[0].Has[0], "table ip podway-proxy (") || !strings.Contains(strings.Join(parts[1].Has, " "), "iptables nat (") {
		t.Fatalf("found %+v", parts)
	}
	for _, p := range parts {
		l.ok(p.Remove(t.Context()))
	}
	if got := l.has(); got != "" {
		t.Errorf("left: %q", got)
	}
	if text := save(t, l, "nat"); !strings.Contains(text, "-A PREROUTING -j KUBE-MINE-NOT") || strings.Contains(text, "KUBE-SERVICES") {
		t.Errorf("the table afterwards:\n%s", text)
	}
}

func TestChainsOfKubeProxyAreNotTakenForOurOwn(t *testing.T) {
	l := newLab(t)
	l.ok(l.node.Do(func() error {
		return restore("*nat\n:KUBE-SERVICES - [0:0]\n-A PREROUTING -j KUBE-SERVICES\nCOMMIT\n*filter\n:KUBE-SERVICES - [0:0]\nCOMMIT\n")
	}))
	if got := l.has(); got != "" {
		t.Errorf("taken for ours: %q", got)
	}
	_, err := l.proxy("nftables").Apply(t.Context(), l.snapshot, model.Everything())
	l.ok(err)
	if text := save(t, l, "nat"); !strings.Contains(text, "-A PREROUTING -j KUBE-SERVICES") {
		t.Errorf("another program's rules are gone:\n%s", text)
	}
}
