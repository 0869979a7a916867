package proxy

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy/health"
	"github.com/podway/podway/internal/kernel/conntrack"
	"github.com/podway/podway/internal/kernel/sysctl"
	"github.com/podway/podway/internal/model"
)

// recorder is a Backend that does nothing but notes the order of things.
type recorder struct {
	log  *[]string
	fail error
	full bool
}

func (r *recorder) Name() string                                { return "recorder" }
func (r *recorder) Supported(context.Context) error             { return nil }
func (r *recorder) Render(*Plan) Ruleset                        { return nil }
func (r *recorder) Check(context.Context) (string, error)       { return "", nil }
func (r *recorder) Remove(context.Context) error                { return nil }
func (r *recorder) Read(context.Context, Node) (Ruleset, error) { return nil, errors.New("not here") }

func (r *recorder) Eval(context.Context, Node, flow.Flow) (flow.Verdict, error) {
	return flow.Verdict{}, errors.New("not here")
}

func (r *recorder) Apply(context.Context, *Plan) (Applied, error) {
	*r.log = append(*r.log, "rules")
	return Applied{Full: r.full}, r.fail
}

// watched is a connection tracking table that notes when it is used.
type watched struct {
	*conntrack.Fake
	log *[]string
}

func (w watched) Delete(ctx context.Context, proto uint8, stale func(conntrack.Entry) bool) (int, error) {
	*w.log = append(*w.log, "connections")
	return w.Fake.Delete(ctx, proto, stale)
}

// entry is a UDP connection to dst that is answered by server.
func entry(dst, server string) conntrack.Entry {
	return conntrack.Entry{Proto: conntrack.UDP, Src: netip.MustParseAddrPort("10.244.1.200:999"),
		Dst: netip.MustParseAddrPort(dst), AnswerSrc: netip.MustParseAddrPort(server)}
}

func dns(eps ...model.Endpoint) *model.EndpointSlice {
	s := hoptest.Slice("dns", eps...)
	s.Ports[0].Protocol = model.UDP
	return s
}

func dnsService(edit ...func(*model.Service)) *model.Service {
	return hoptest.Service("dns", 10, append([]func(*model.Service){func(s *model.Service) {
		s.Type, s.Ports[0].Protocol, s.Ports[0].NodePort = model.NodePort, model.UDP, 30053
		s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.10")}
	}}, edit...)...)
}

func TestOnlyConnectionsThatNobodyStandsBehindAreDeleted(t *testing.T) {
	for _, proto := range []model.Protocol{model.UDP, model.SCTP} {
		t.Run(string(proto), func(t *testing.T) { onlyStaleOnes(t, proto) })
	}
}

// speak gives objects and entries of UDP another protocol.
func speak(p model.Protocol, objects []any, es []conntrack.Entry) {
	for _, o := range objects {
		switch o := o.(type) {
		case *model.Service:
			o.Ports[0].Protocol = p
		case *model.EndpointSlice:
			o.Ports[0].Protocol = p
		}
	}
	for i := range es {
		if es[i].Proto == conntrack.UDP {
			es[i].Proto = protoOf(p).Number()
		}
	}
}

func onlyStaleOnes(t *testing.T, proto model.Protocol) {
	const vip, ext, node = "10.96.0.10:80", "198.51.100.10:80", "192.168.1.1:30053"
	a, b := "10.244.1.5:8080", "10.244.2.6:8080"
	two := []any{dnsService(), dns(hoptest.Ready("10.244.1.5"), hoptest.Ready("10.244.2.6"))}
	one := []any{dnsService(), dns(hoptest.Ready("10.244.2.6"))}
	none := []any{dnsService(), dns()}
	all := []conntrack.Entry{
		entry(vip, a), entry(vip, b), entry(ext, a), entry(node, a), entry(node, b),
		entry(vip, vip), entry(node, node), // began before there were rules
		entry("10.96.0.11:80", a), entry(a, a), entry("192.168.1.1:5353", "192.168.1.1:5353"), // somebody else's
		{Proto: 6, Dst: netip.MustParseAddrPort(vip), AnswerSrc: netip.MustParseAddrPort(a)},
	}
	speak(proto, slices.Concat(two, one, none), all)
	others := []conntrack.Entry{all[7], all[8], all[9], all[10]}
	for _, c := range []struct {
		name     string
		from, to []any
		left     []conntrack.Entry
	}{
		{"an endpoint goes", two, one, []conntrack.Entry{all[1], all[4]}},
		{"the last endpoint goes: the port of the node may be another program's", one, none, []conntrack.Entry{all[3], all[5], all[6]}},
		{"the first endpoint comes", none, one, []conntrack.Entry{all[1], all[4]}},
		{"the Service is deleted", two, nil, []conntrack.Entry{all[5], all[6]}},
		{"an endpoint comes", one, two, all[:5]},
		{"nothing changes", two, two, all[:7]},
		{"it drains: it may go on serving", two, []any{dnsService(), dns(hoptest.Draining("10.244.1.5"), hoptest.Ready("10.244.2.6"))}, all[:7]},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log []string
			table := watched{conntrack.NewFake(), &log}
			p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log}, Connections: table})
			speak(proto, c.to, nil)
			from := hoptest.NewCluster().Put(c.from...).Snapshot()
			if _, err := p.Apply(t.Context(), from, model.Everything()); err != nil {
				t.Fatal(err)
			}
			table.Add(all...)
			log = nil
			to := hoptest.NewCluster().Put(c.to...).Snapshot()
			if slices.Equal(c.from, c.to) {
				to = from
			}
			if _, err := p.Apply(t.Context(), to, model.Diff(from, to)); err != nil {
				t.Fatal(err)
			}
			want := append(slices.Clone(c.left), others...)
			var got []conntrack.Entry
			for _, n := range []uint8{protoOf(proto).Number(), flow.TCP.Number()} {
				es, _ := table.List(t.Context(), n)
				got = append(got, es...)
			}
			for _, e := range all {
				if slices.Contains(got, e) != slices.Contains(want, e) {
					t.Errorf("%s answered by %s: kept %v, want %v", e.Dst, e.AnswerSrc, slices.Contains(got, e), slices.Contains(want, e))
				}
			}
			if log[0] != "rules" {
				t.Errorf("order %v: the rules must be first", log)
			}
			if c.name == "nothing changes" && len(log) != 1 {
				t.Error("the table was listed though nothing changed")
			}
		})
	}
}

func TestARestartDeletesOnlyStaleConnections(t *testing.T) {
	var log []string
	table := watched{conntrack.NewFake(entry("10.96.0.10:80", "10.244.1.5:8080"), entry("10.96.0.10:80", "10.244.9.9:8080")), &log}
	p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log}, Connections: table})
	s := hoptest.NewCluster().Put(dnsService(), dns(hoptest.Ready("10.244.1.5"))).Snapshot()
	if _, err := p.Apply(t.Context(), s, model.Everything()); err != nil {
		t.Fatal(err)
	}
	es, _ := table.List(t.Context(), conntrack.UDP)
	if len(es) != 1 || es[0].AnswerSrc.String() != "10.244.1.5:8080" {
		t.Errorf("left: %+v, want the valid one", es)
	}
}

func TestRulesThatFailLeaveConnectionsAloneAndAllAreLookedAtAfterwards(t *testing.T) {
	var log []string
	table := watched{conntrack.NewFake(entry("10.96.0.10:80", "10.244.1.5:8080")), &log}
	back := &recorder{log: &log}
	p := New(Options{Node: hoptest.NodeA, Backend: back, Connections: table})
	one := hoptest.NewCluster().Put(dnsService(), dns(hoptest.Ready("10.244.1.5"))).Snapshot()
	if _, err := p.Apply(t.Context(), one, model.Everything()); err != nil {
		t.Fatal(err)
	}
	two := hoptest.NewCluster().Put(dnsService(), dns(hoptest.Ready("10.244.2.6"))).Snapshot()
	back.fail = errors.New("no")
	if _, err := p.Apply(t.Context(), two, model.Diff(one, two)); err == nil {
		t.Fatal("the error was lost")
	}
	if es, _ := table.List(t.Context(), conntrack.UDP); len(es) != 1 {
		t.Error("a connection was deleted though the rules still lead to its endpoint")
	}
	back.fail = nil
	if _, err := p.Apply(t.Context(), two, model.Everything()); err != nil {
		t.Fatal(err)
	}
	if es, _ := table.List(t.Context(), conntrack.UDP); len(es) != 0 {
		t.Error("the connection that became stale during the failure was forgotten")
	}
}

func TestReportsNameShadowedFrontends(t *testing.T) {
	var log []string
	p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log}})
	same := func(s *model.Service) { s.ExternalIPs = []netip.Addr{netip.MustParseAddr("198.51.100.1")} }
	s := hoptest.NewCluster().Put(hoptest.Service("a", 7, same), hoptest.Service("b", 8, same)).Snapshot()
	r, err := p.Apply(t.Context(), s, model.Everything())
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Code != flow.FrontendTaken || r.Findings[0].Object != "Service shop/b" {
		t.Errorf("report %+v, %v", r, err)
	}
	if r, _ = p.Apply(t.Context(), s, model.Diff(s, s)); len(r.Findings) != 1 {
		t.Errorf("a finding stands until it is mended, got %v", r.Findings)
	}
	mended := hoptest.NewCluster().Put(hoptest.Service("a", 7, same), hoptest.Service("b", 8)).Snapshot()
	if r, _ = p.Apply(t.Context(), mended, model.Diff(s, mended)); len(r.Findings) != 0 {
		t.Errorf("what is mended is gone, got %v", r.Findings)
	}
}

func TestHealthChecksFollowThePlanAndTheProxysHealth(t *testing.T) {
	var log []string
	at := map[string]string{}
	back := &recorder{log: &log}
	late := 300 * time.Millisecond
	p := New(Options{Node: hoptest.NodeA, Backend: back, Health: health.NewNode(late), Listen: func(address string) (net.Listener, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			at[address] = l.Addr().String()
		}
		return l, err
	}})
	t.Cleanup(func() { p.Remove(context.Background()) })
	ask := func(want int) {
		t.Helper()
		c := http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		r, err := c.Get("http://" + at["192.168.1.1:32100"])
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != want {
			t.Errorf("got %d, want %d", r.StatusCode, want)
		}
	}
	svc := hoptest.Service("cart", 7, func(s *model.Service) {
		s.Type, s.ExternalPolicyLocal, s.HealthCheckNodePort, s.Ports[0].NodePort = model.LoadBalancer, true, 32100, 30080
	})
	var have *model.Snapshot
	apply := func(eps ...model.Endpoint) error {
		next := hoptest.NewCluster().Put(svc, hoptest.Slice("cart", eps...)).Snapshot()
		_, err := p.Apply(t.Context(), next, model.Diff(have, next))
		have = next
		return err
	}
	if err := apply(hoptest.Ready("10.244.1.5"), hoptest.Ready("10.244.2.6")); err != nil {
		t.Fatal(err)
	}
	ask(200)
	if err := apply(hoptest.Draining("10.244.1.5"), hoptest.Ready("10.244.2.6")); err != nil {
		t.Fatal(err)
	}
	ask(503) // it still serves, but load balancers are to send new connections elsewhere
	if err := apply(hoptest.Ready("10.244.1.5")); err != nil {
		t.Fatal(err)
	}
	ask(200)
	back.fail = errors.New("no")
	if err := apply(hoptest.Ready("10.244.1.5"), hoptest.Ready("10.244.1.6")); err == nil {
		t.Fatal("the error was lost")
	}
	ask(200)
	time.Sleep(late)
	ask(503)
	back.fail = nil
	if err := apply(hoptest.Ready("10.244.1.5")); err != nil {
		t.Fatal(err)
	}
	ask(200)
}

func TestConnectionTrackingIsMadeLiberalOrItIsSaid(t *testing.T) {
	var log []string
	settings := &sysctl.Fake{Values: map[string]string{liberal: "0"}}
	s := hoptest.NewCluster().Snapshot()
	for _, c := range []struct {
		readOnly bool
		value    string
		findings int
	}{{true, "0", 1}, {false, "1", 0}} {
		settings.ReadOnly = c.readOnly
		p := New(Options{Node: hoptest.NodeA, Backend: &recorder{log: &log}, Sysctl: settings})
		r, err := p.Apply(t.Context(), s, model.Everything())
		if v, _ := settings.Get(liberal); err != nil || v != c.value || len(r.Findings) != c.findings {
			t.Errorf("read only %v: value %s, findings %+v, %v", c.readOnly, v, r.Findings, err)
		}
		settings.Values[liberal] = "1" // by hand
		if _, err := p.Check(t.Context()); err != nil || len(p.Findings()) > 0 {
			t.Errorf("read only %v: after it was set by hand: %+v, %v", c.readOnly, p.Findings(), err)
		}
		settings.Values[liberal] = c.value
	}
}
