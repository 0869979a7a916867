package doctor

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace"
	"github.com/podway/podway/internal/trace/ask"
	"github.com/podway/podway/internal/trace/sockets"
)

// refuse is a view in which Services without endpoints refuse and all else passes.
type refuse struct{ s *model.Snapshot }

func (v refuse) Verdict(_ context.Context, hop, _ string, f flow.Flow) (flow.Verdict, error) {
	switch hop {
	case trace.HopProxy:
		for svc := range v.s.Services.Values() {
			if svc.HasClusterIP() && svc.ClusterIPs[0] == f.Dst.Addr() {
				if v.s.Backends(svc.Name) == nil {
					return flow.Verdict{Action: flow.Refused}, nil
				}
				return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{netip.MustParseAddrPort("10.244.0.5:8080")}}, nil
			}
		}
	case trace.HopIngress:
		if f.HTTP.Host == "lost.example" {
			return flow.Verdict{Action: flow.Answer, Status: 404}, nil
		}
	}
	return flow.Verdict{Action: flow.Pass}, nil
}

func service(name string, i int, selector map[string]string) *model.Service {
	return &model.Service{Name: model.N("shop", name), Type: model.ClusterIP, ClusterIPs: []netip.Addr{netip.AddrFrom4([4]byte{10, 96, 0, byte(i)})},
		Selector: selector, Ports: []model.ServicePort{{Protocol: model.TCP, Port: 80, TargetPort: model.PortRef{Number: 8080}}}}
}

func snapshot(objs ...any) *model.Snapshot {
	b := model.NewBuilder(nil)
	b.Put(&model.Node{Name: "n1", Ready: true, Addrs: []netip.Addr{netip.MustParseAddr("172.18.0.1")}})
	cart := service("cart", 7, map[string]string{"app": "cart"})
	b.Put(cart)
	b.Put(&model.Pod{Name: model.N("shop", "cart-1"), Labels: map[string]string{"app": "cart"}, Node: "n1", Ready: true, Phase: "Running", Addrs: []netip.Addr{netip.MustParseAddr("10.244.0.5")}})
	b.Put(&model.EndpointSlice{Name: model.N("shop", "cart-x"), Service: cart.Name, Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}},
		Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("10.244.0.5"), Ready: true, Node: "n1", Pod: model.N("shop", "cart-1")}}})
	for _, o := range objs {
		b.Put(o)
	}
	return b.Snapshot(time.Unix(0, 0))
}

func ingress(name, class, host string) *model.Ingress {
	return &model.Ingress{Name: model.N("shop", name), Class: class, Rules: []model.IngressRule{{Host: host,
		Paths: []model.IngressPath{{Path: "/", Type: model.PathPrefix, Backend: model.IngressBackend{Service: "cart", Port: model.PortRef{Number: 80}}}}}}}
}

func codes(r Report) string {
	var out []string
	for _, c := range r.Causes {
		out = append(out, fmt.Sprintf("%s %s %d", c.Code, c.Object, len(c.Hits)))
	}
	return strings.Join(out, "; ")
}

func TestASoundClusterHasNoCause(t *testing.T) {
	s := snapshot()
	r := Examine(t.Context(), s, refuse{s}, Options{})
	if len(r.Causes) > 0 || r.Exit != trace.ExitOK || r.Services != 1 || r.Nodes != 1 || !r.Predicted {
		t.Errorf("got %s, %+v", codes(r), r)
	}
}

func TestEachCauseIsReportedOnceWithWhatItHits(t *testing.T) {
	s := snapshot(service("crat", 8, map[string]string{"app": "crat"}), &model.Node{Name: "n2"},
		&model.Workload{Kind: "Deployment", Name: model.N("shop", "pay"), Labels: map[string]string{"app": "pay"}},
		service("pay-a", 9, map[string]string{"app": "pay"}), service("pay-b", 10, map[string]string{"app": "pay"}),
		&model.IngressClass{Name: "nginx", Controller: "k8s.io/ingress-nginx"}, ingress("theirs", "nginx", "theirs.example"), ingress("lost", "nowhere", "lost.example"))
	r := Examine(t.Context(), s, refuse{s}, Options{})
	want := "PW-1204 Deployment shop/pay 2; PW-4001 Ingress shop/lost 1; PW-1201 Service shop/crat 1; PW-5006 node n2 0"
	got := strings.Split(codes(r), "; ")
	wanted := strings.Split(want, "; ")
	slices.Sort(got[1:3])
	slices.Sort(wanted[1:3])
	if !slices.Equal(got, wanted) || r.Exit != trace.ExitBroken {
		t.Errorf("got %s exit %d\nwant %s", codes(r), r.Exit, want)
	}
	if len(r.NotChecked) != 1 || !strings.Contains(r.NotChecked[0], "controller k8s.io/ingress-nginx") || r.Ingresses != 1 {
		t.Errorf("the other controller's Ingress is not ours to judge: %q, %d Ingresses", r.NotChecked, r.Ingresses)
	}
	var out bytes.Buffer
	r.Text(&out, trace.Colour{})
	for _, line := range []string{"E PW-1204 Deployment shop/pay: ", "    hits      Service shop/pay-a 80/TCP, Service shop/pay-b 80/TCP", "W PW-5006 node n2: is not ready",
		"i checked 4 Services, 1 Ingress, 2 nodes: as declared; no node was looked at", "not checked: Ingress shop/theirs"} {
		if !strings.Contains(out.String(), line) {
			t.Errorf("%q is not in:\n%s", line, out.String())
		}
	}
}

func TestAnIngressWithoutClassIsAnothersWhereTheDefaultClassIs(t *testing.T) {
	s := snapshot(&model.IngressClass{Name: "nginx", Controller: "k8s.io/ingress-nginx", Default: true}, ingress("theirs", "", "lost.example"))
	r := Examine(t.Context(), s, refuse{s}, Options{})
	if len(r.Causes) != 0 || r.Ingresses != 0 || len(r.NotChecked) != 1 || !strings.Contains(r.NotChecked[0], "the default one is another controller's") {
		t.Errorf("%s; %d Ingresses, %q", codes(r), r.Ingresses, r.NotChecked)
	}
}

func TestEveryNodeIsAskedHowItIs(t *testing.T) {
	s := snapshot(&model.Node{Name: "n2", Ready: true}, &model.Node{Name: "n3", Ready: true})
	r := Examine(t.Context(), s, refuse{s}, Options{Status: func(_ context.Context, node string) (ask.Status, error) {
		switch node {
		case "n1":
			return ask.Status{Lost: time.Minute, Failing: map[string]string{"proxy": "nft: no space"}, Conntrack: &ask.Conntrack{Count: 91, Max: 100}}, nil
		case "n2":
			return ask.Status{}, trace.ErrAgentDown
		}
		return ask.Status{Findings: []flow.Finding{{Code: flow.ForwardingOff, Severity: flow.Error, Object: "node n3", Cause: "ip_forward is 0"}}}, nil
	}})
	want := "PW-9003 node n1 0; PW-5003 node n3 0; PW-9002 node n1 0; PW-6002 node n1 0; PW-9001 node n2 0"
	if got := codes(r); got != want || r.Exit != trace.ExitBroken || r.Predicted {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestKindsThatCouldNotBeListedAreNeverGreen(t *testing.T) {
	s := snapshot()
	for name, o := range map[string]Options{
		"a live cluster": {Missing: []string{"Nodes: forbidden"}, Status: func(context.Context, string) (ask.Status, error) { return ask.Status{}, nil }},
		"files":          {Missing: []string{"Nodes: forbidden"}},
	} {
		if r := Examine(t.Context(), s, refuse{s}, o); r.Exit != trace.ExitUnknown || !strings.Contains(strings.Join(r.NotChecked, "\n"), "could not be listed: Nodes: forbidden") {
			t.Errorf("%s: exit %d, %q", name, r.Exit, r.NotChecked)
		}
	}
	b := model.NewBuilder(nil)
	b.Put(service("cart", 7, nil))
	none := b.Snapshot(time.Unix(0, 0))
	r := Examine(t.Context(), none, refuse{none}, Options{Status: func(context.Context, string) (ask.Status, error) { return ask.Status{}, nil }})
	var out bytes.Buffer
	r.Text(&out, trace.Colour{})
	if r.Exit == trace.ExitOK || !strings.Contains(out.String(), "checked 0 Services, 0 Ingresses, 0 nodes: as declared; no node was looked at") || !strings.Contains(out.String(), "no Node is to be seen") {
		t.Errorf("exit %d:\n%s", r.Exit, out.String())
	}
}

func TestThePodsOfANodeAreAskedOnceForWhatTheyListenOn(t *testing.T) {
	pod := func(name, ip string) *model.Pod {
		return &model.Pod{Name: model.N("shop", name), UID: "uid-" + name, Labels: map[string]string{"app": "cart"}, Node: "n1", Ready: true, Phase: "Running", Addrs: []netip.Addr{netip.MustParseAddr(ip)}}
	}
	s := snapshot(pod("cart-1", "10.244.0.5"), service("again", 9, map[string]string{"app": "cart"}),
		&model.EndpointSlice{Name: model.N("shop", "again-x"), Service: model.N("shop", "again"), Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}},
			Endpoints: []model.Endpoint{{Addr: netip.MustParseAddr("10.244.0.5"), Ready: true, Node: "n1", Pod: model.N("shop", "cart-1")}}})
	asked := 0
	listen := func(port uint16) Options {
		return Options{Status: func(context.Context, string) (ask.Status, error) { return ask.Status{}, nil },
			Sockets: func(_ context.Context, node string, uids []string) (ask.PodSockets, error) {
				if asked++; node != "n1" || !slices.Equal(uids, []string{"uid-cart-1"}) {
					t.Errorf("asked %s for %q", node, uids)
				}
				on := netip.AddrPortFrom(netip.IPv4Unspecified(), port)
				return ask.PodSockets{"uid-cart-1": {Listeners: []sockets.Listener{{Proto: "tcp", Addr: on}}}}, nil
			}}
	}
	if r := Examine(t.Context(), s, refuse{s}, listen(8080)); len(r.Causes) > 0 || r.Exit != trace.ExitOK || asked != 1 {
		t.Errorf("sound: %s, %q, asked %d times", codes(r), r.NotChecked, asked)
	}
	r := Examine(t.Context(), s, refuse{s}, listen(8099))
	if len(r.Causes) != 1 || r.Causes[0].Code != flow.NothingListens || r.Exit != trace.ExitBroken || !strings.Contains(r.Causes[0].Fix, "targetPort: 8099") {
		t.Errorf("a wrong port: exit %d, %+v", r.Exit, r.Causes)
	}
	o := listen(8080)
	o.Sockets = func(context.Context, string, []string) (ask.PodSockets, error) { return nil, trace.ErrAgentDown }
	if r := Examine(t.Context(), s, refuse{s}, o); r.Exit != trace.ExitUnknown || len(r.NotChecked) != 1 {
		t.Errorf("an agent that does not say: exit %d, %q", r.Exit, r.NotChecked)
	}
}

func TestWhatTheIngressProxyLogsIsReported(t *testing.T) {
	older, secret, odd := ingress("a", "podway", "one.example"), ingress("b", "podway", "one.example"), ingress("c", "podway", "*.wild.example")
	secret.Created = time.Unix(10, 0)
	odd.TLS = []model.IngressTLS{{Secret: "gone", Hosts: []string{"*.wild.example"}}}
	odd.Annotations = map[string]string{"nginx.ingress.kubernetes.io/rewrite-target": "/"}
	s := snapshot(&model.IngressClass{Name: "podway", Controller: "podway.io/ingress"}, older, secret, odd)
	r := Examine(t.Context(), s, refuse{s}, Options{})
	for _, want := range []string{"PW-4006 Ingress shop/c", "PW-4007 Ingress shop/b", "PW-4008 Ingress shop/c"} {
		if !strings.Contains(codes(r), want) {
			t.Errorf("%s is not in %s", want, codes(r))
		}
	}
	if r := Examine(t.Context(), s, refuse{s}, Options{Missing: []string{"TLS Secrets: forbidden"}}); strings.Contains(codes(r), "PW-4006") {
		t.Errorf("a Secret that may not be seen is called missing: %s", codes(r))
	}
}

func TestAPoolThatOverlapsAndAnEndpointWithoutAPodAreFound(t *testing.T) {
	at := netip.MustParseAddr
	s := snapshot(&model.Node{Name: "n1", Ready: true, Addrs: []netip.Addr{at("172.18.0.1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/24")}},
		&model.Pool{Name: "bad", Ranges: []model.AddrRange{{From: at("10.96.0.10"), To: at("10.96.0.20")}}},
		&model.EndpointSlice{Name: model.N("shop", "cart-y"), Service: model.N("shop", "cart"), Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}},
			Endpoints: []model.Endpoint{{Addr: at("10.244.77.1"), Ready: true, Node: "ghost"}}})
	r := Examine(t.Context(), s, refuse{s}, Options{Pods: []netip.Prefix{netip.MustParsePrefix("10.244.0.0/16")}, Services: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}})
	if got, want := codes(r), "PW-7003 Service shop/cart 1; PW-3004 AddressPool bad 0"; got != want || r.Exit != trace.ExitOK {
		t.Errorf("got %s exit %d, want %s", got, r.Exit, want)
	}
}

func TestWhatFollowsFromACauseIsNoCauseOfItsOwn(t *testing.T) {
	down := &model.Pod{Name: model.N("shop", "pay-1"), Labels: map[string]string{"app": "pay"}, Node: "n1", Phase: "Running", Problem: "ContainersNotReady", Addrs: []netip.Addr{netip.MustParseAddr("10.244.0.6")}}
	lb := service("podway-ingress", 20, map[string]string{"app": "podway-ingress"})
	lb.Type, lb.LoadBalancerIPs = model.LoadBalancer, []model.LoadBalancerIP{{Addr: netip.MustParseAddr("192.0.2.80")}}
	s := snapshot(down, service("pay-a", 9, map[string]string{"app": "pay"}), service("pay-b", 10, map[string]string{"app": "pay"}), lb,
		&model.Workload{Kind: "Deployment", Name: model.N("shop", "podway-ingress"), Labels: map[string]string{"app": "podway-ingress"}})
	r := Examine(t.Context(), s, refuse{s}, Options{})
	if got, want := codes(r), "PW-1202 Service shop/pay-a 2; PW-1204 Deployment shop/podway-ingress"; !strings.HasPrefix(got, want) || len(r.Causes) != 2 {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestADaemonSetWithoutPodsIsOneCause(t *testing.T) {
	s := snapshot(&model.Node{Name: "n2", Ready: true})
	r := Examine(t.Context(), s, refuse{s}, Options{Status: func(context.Context, string) (ask.Status, error) { return ask.Status{}, trace.ErrNoPods }})
	if got, want := codes(r), "PW-1201 DaemonSet kube-system/podway-node 2"; got != want || r.Exit != trace.ExitBroken {
		t.Errorf("got %s exit %d, want %s", got, r.Exit, want)
	}
}

func TestWhatCouldNotBeAskedIsNeverGreen(t *testing.T) {
	s := snapshot()
	r := Examine(t.Context(), s, refuse{s}, Options{Status: func(context.Context, string) (ask.Status, error) { return ask.Status{}, trace.ErrNotChecked }})
	if r.Exit != trace.ExitUnknown || len(r.NotChecked) != 1 || len(r.Causes) != 0 {
		t.Errorf("exit %d, %q, %s", r.Exit, r.NotChecked, codes(r))
	}
}
