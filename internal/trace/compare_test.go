package trace

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace/ask"
	"github.com/podway/podway/internal/trace/probe"
	"github.com/podway/podway/internal/trace/sockets"
)

// live is a cluster whose live state is as declared, save what the fields say.
type live struct {
	view   *fakeView // the programmed layer
	listen map[string]string
	status map[string]ask.Status
	probes map[string]probe.Answer // by destination; "" = answered
	sent   []string
}

func (l *live) layers() Layers {
	return Layers{
		Programmed: l.lockedView(),
		Status: func(_ context.Context, node string) (ask.Status, error) {
			st, ok := l.status[node]
			if !ok {
				return ask.Status{Node: node, Synced: true}, nil
			}
			return st, nil
		},
		Sockets: func(_ context.Context, p *model.Pod) (sockets.Report, error) {
			on, ok := l.listen[p.Name.Name]
			if !ok {
				on = "0.0.0.0:8080"
			}
			r := sockets.Report{Processes: 1}
			for _, a := range strings.Fields(on) {
				r.Listeners = append(r.Listeners, sockets.Listener{Proto: "tcp", Addr: netip.MustParseAddrPort(a), PID: 7, Command: "app"})
			}
			return r, nil
		},
	}
}

// lockedView serves one ask at a time: the fake remembers what it was asked.
func (l *live) lockedView() View { return &oneAtATime{v: l.view, gate: make(chan struct{}, 1)} }

type oneAtATime struct {
	v    View
	gate chan struct{}
}

func (o *oneAtATime) Verdict(ctx context.Context, hop, node string, f flow.Flow) (flow.Verdict, error) {
	o.gate <- struct{}{}
	defer func() { <-o.gate }()
	return o.v.Verdict(ctx, hop, node, f)
}

func (l *live) probe(_ context.Context, from Origin, r probe.Request) (probe.Answer, error) {
	l.sent = append(l.sent, fmt.Sprintf("%s %s>%s", r.Kind, from.Node, r.Dst))
	if a, ok := l.probes[r.Dst.String()]; ok {
		return a, nil
	}
	a := probe.Answer{Result: probe.Answered, Took: time.Millisecond}
	switch r.Kind {
	case probe.DNS:
		a.Rcode, a.Records = "NOERROR", []string{"A 10.96.0.7"}
	case probe.HTTP:
		a.Status = 200
	}
	return a, nil
}

func TestTheLayersAreComparedHopByHop(t *testing.T) {
	const ask1 = "pod web -> tcp cart:80"
	fwd := flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{netip.MustParseAddrPort("10.244.9.9:8080")}}
	for _, c := range []struct {
		name, line string
		programmed map[string]flow.Verdict
		errs       map[string]error
		listen     map[string]string
		status     map[string]ask.Status
		probe      bool
		probes     map[string]probe.Answer
		changes    []any
		exit       int
		code       flow.Code
		at         string // the broken hop@node
		says       string
	}{
		{name: "all agree", line: ask1, exit: ExitOK},
		{name: "stale rules on the client's node", line: ask1, programmed: map[string]flow.Verdict{"proxy": fwd}, exit: ExitBroken,
			code: flow.RulesDiffer, at: "proxy@n1", says: "programmed forward 10.244.9.9:8080"},
		{name: "stale rules because the node lost the API server", line: ask1, programmed: map[string]flow.Verdict{"proxy": fwd},
			status: map[string]ask.Status{"n1": {Synced: true, Lost: time.Hour}}, exit: ExitBroken, code: flow.AgentStale, at: "proxy@n1", says: "1h0m0s"},
		{name: "stale rules because programming fails", line: ask1, programmed: map[string]flow.Verdict{"proxy": fwd},
			status: map[string]ask.Status{"n1": {Synced: true, Failing: map[string]string{"proxy": "nft: no space"}}}, exit: ExitBroken, code: flow.ApplyFailed, at: "proxy@n1", says: "nft: no space"},
		{name: "DNS answers from an old view", line: ask1, programmed: map[string]flow.Verdict{"dns": {Action: flow.Answer, Rcode: "NXDOMAIN"}}, exit: ExitBroken,
			code: flow.DNSWrongAnswer, at: "dns@n1"},
		{name: "DNS is not synced", line: ask1, programmed: map[string]flow.Verdict{"dns": {Action: flow.Answer, Rcode: "SERVFAIL"}}, exit: ExitBroken, code: flow.DNSNotSynced, at: "dns@n1"},
		{name: "a route is missing", line: ask1, programmed: map[string]flow.Verdict{"podnet@n1": {Action: flow.Dropped}}, exit: ExitBroken, code: flow.NoRouteToPod, at: "podnet@n1"},
		{name: "the node itself says why", line: ask1, programmed: map[string]flow.Verdict{"podnet@n2": {Action: flow.Dropped, Findings: []flow.Finding{
			{Code: flow.NoVethOfPod, Severity: flow.Error, Object: "Pod shop/cart-2", Cause: "its device is gone"}}}}, exit: ExitBroken, code: flow.NoVethOfPod, at: "podnet@n2", says: "its device is gone"},
		{name: "conntrack is full", line: ask1, status: map[string]ask.Status{"n1": {Synced: true, Conntrack: &ask.Conntrack{Count: 100, Max: 100}}}, exit: ExitBroken, code: flow.ConntrackFull, at: "proxy@n1"},
		{name: "nobody announces", line: "get http://shop.example/ from outside", programmed: map[string]flow.Verdict{"announce": {Action: flow.Dropped}}, exit: ExitBroken, code: flow.LBNotAnnounced, at: "announce@n1", says: "node n2 should answer for 192.0.2.80"},
		{name: "the ingress has old routes", line: "get http://shop.example/ from outside", programmed: map[string]flow.Verdict{"ingress": {Action: flow.Answer, Status: 404}}, exit: ExitBroken, code: flow.AgentStale, at: "ingress@n2"},
		{name: "nothing listens, and one other port is open", line: ask1, listen: map[string]string{"cart-1": "0.0.0.0:8081", "cart-2": "0.0.0.0:8081"}, exit: ExitBroken,
			code: flow.NothingListens, at: "process@n1", says: "- targetPort: 8080\n+ targetPort: 8081"},
		{name: "one of two Pods listens on loopback only", line: ask1, listen: map[string]string{"cart-2": "127.0.0.1:8080"}, exit: ExitBroken, code: flow.ListensOnLoopback, at: "process@n2", says: "(1 of 2 Pods)"},
		{name: "the agent of the client's node is down", line: ask1, errs: map[string]error{"proxy@n1": ErrAgentDown}, exit: ExitUnknown},
		{name: "a hop is off on the node", line: ask1, errs: map[string]error{"proxy@n1": ask.ErrOff}, exit: ExitUnknown},
		{name: "a hop is off, and a probe shows that it works", line: ask1, errs: map[string]error{"proxy@n1": ask.ErrOff}, probe: true, exit: ExitOK},
		{name: "a probe confirms", line: ask1, probe: true, exit: ExitOK},
		{name: "the Service is silent though its Pods answer", line: ask1, probe: true, probes: map[string]probe.Answer{"10.96.0.7:80": {Result: probe.Timeout}}, exit: ExitBroken,
			code: flow.RulesDiffer, at: "proxy@n1", says: "though every target answers"},
		{name: "a Pod is not reached over the network", line: ask1, probe: true, probes: map[string]probe.Answer{"10.244.2.7:8080": {Result: probe.Timeout}}, exit: ExitBroken,
			code: flow.PacketsLost, at: "podnet@n2", says: "from the Pod on node n1 to 10.244.2.7:8080 got timeout"},
		{name: "what answers listens, whatever /proc shows", line: ask1, probe: true, listen: map[string]string{"cart-1": "127.0.0.1:8080", "cart-2": "0.0.0.0:1"}, exit: ExitOK},
		{name: "a Pod refuses", line: ask1, probe: true, probes: map[string]probe.Answer{"10.244.2.7:8080": {Result: probe.Refused}}, exit: ExitBroken, code: flow.NothingListens, at: "process@n2", says: "10.244.2.7:8080 refuses connections"},
		{name: "DNS does not answer", line: ask1, probe: true, changes: dnsServed(), probes: map[string]probe.Answer{"10.96.0.10:53": {Result: probe.Timeout}}, exit: ExitBroken, code: flow.DNSServerDown, at: "dns@n1"},
		{name: "DNS answers otherwise", line: ask1, probe: true, changes: dnsServed(), probes: map[string]probe.Answer{"10.96.0.10:53": {Result: probe.Answered, Rcode: "NOERROR", Records: []string{"A 10.0.0.1"}}}, exit: ExitBroken, code: flow.DNSWrongAnswer, at: "dns@n1"},
		{name: "what the API shows to be broken stays the cause", line: ask1, changes: cartPods(func(p *model.Pod) { p.Ready = false }), exit: ExitBroken, code: flow.PodsNotReady, at: "proxy@n1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := build(c.changes...)
			p, _ := walk(t, s, c.line, nil)
			x := NewIndex(s)
			l := &live{view: &fakeView{x: x, over: c.programmed, errs: c.errs}, listen: c.listen, status: c.status, probes: c.probes}
			layers := l.layers()
			if c.probe {
				layers.Probe = l.probe
			}
			x.Compare(t.Context(), &p, layers)
			r := x.Report(p, false)
			if r.Exit != c.exit {
				t.Errorf("exit %d, want %d: %s\n%s", r.Exit, c.exit, r.Summary, brief(p))
			}
			if c.code == "" {
				if r.Finding != nil {
					t.Errorf("unexpected %+v", *r.Finding)
				}
				return
			}
			st := p.BrokenStep()
			if r.Finding == nil || st == nil {
				t.Fatalf("want %s at %s, got %s", c.code, c.at, brief(p))
			}
			all := r.Finding.Cause + "\n" + strings.Join(r.Finding.Evidence, "\n") + "\n" + r.Finding.Fix
			if r.Finding.Code != c.code || st.Hop+"@"+st.Node != c.at || !strings.Contains(all, c.says) {
				t.Errorf("got %s at %s@%s, want %s at %s\n%s\nsent %v", r.Finding.Code, st.Hop, st.Node, c.code, c.at, all, l.sent)
			}
		})
	}
}

func kubeDNS() *model.Service {
	return with(service("kube-system", "kube-dns", "10.96.0.10", "", 53, 53), func(s *model.Service) { s.Ports[0].Protocol = model.UDP })
}

// dnsServed is the DNS Service with an endpoint.
func dnsServed() []any {
	svc := kubeDNS()
	return []any{svc, slice(svc, pod("kube-system", "dns-1", "n1", "10.244.1.53", nil))}
}

func TestAnAgentThatIsDownIsNamedOnceBesideTheCause(t *testing.T) {
	s := build()
	p, _ := walk(t, s, "pod web -> tcp cart:80", nil)
	x := NewIndex(s)
	down := fmt.Errorf("%w: no such Pod", ErrAgentDown)
	l := &live{view: &fakeView{x: x, errs: map[string]error{"dns": down, "proxy": down}}}
	x.Compare(t.Context(), &p, l.layers())
	r := x.Report(p, false)
	if len(r.Others) != 1 || r.Others[0].Code != flow.AgentDown || r.Exit != ExitUnknown {
		t.Errorf("want %s once and exit 2, got %+v exit %d", flow.AgentDown, r.Others, r.Exit)
	}
}

func TestProbesStartWhereThePacketsDo(t *testing.T) {
	s := build()
	p, _ := walk(t, s, "get http://shop.example/ from outside", nil)
	x := NewIndex(s)
	l := &live{view: &fakeView{x: x}}
	layers := l.layers()
	layers.Probe = l.probe
	x.Compare(t.Context(), &p, layers)
	got := strings.Join(l.sent, "; ")
	want := "http >192.0.2.80:80; conn n2>10.244.2.9:8080; conn n2>10.244.1.7:8080; conn n2>10.244.2.7:8080"
	if got != want {
		t.Errorf("sent\n got %s\nwant %s", got, want)
	}
}
