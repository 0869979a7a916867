package trace

import (
	"context"
	"net/netip"
	"strings"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace/probe"
	"github.com/podway/podway/internal/trace/sockets"
)

// ranged is shop with Pod ranges: one for each node, and all of 10.244.0.0/16.
func ranged(changes ...any) (*model.Snapshot, *Index) {
	cidr := func(s string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(s)} }
	s := build(append([]any{
		&model.Node{Name: "n1", Ready: true, Addrs: []netip.Addr{addr("172.18.0.1")}, PodCIDRs: cidr("10.244.1.0/24")},
		&model.Node{Name: "n2", Ready: true, Addrs: []netip.Addr{addr("172.18.0.2")}, PodCIDRs: cidr("10.244.2.0/24")},
	}, changes...)...)
	return s, NewIndex(s).PodRanges(cidr("10.244.0.0/16"))
}

func strayEndpoint(s *model.EndpointSlice) {
	s.Endpoints = append(s.Endpoints, model.Endpoint{Addr: addr("10.244.77.1"), Ready: true, Serving: true, Node: "ghost"})
}

func webH() []any {
	h := cart(func(s *model.Service) { s.Name, s.Headless, s.ClusterIPs = model.N("shop", "web-h"), true, nil })
	return []any{h, slice(h, pod("shop", "cart-1", "n1", "10.244.1.7", nil))}
}

func TestWhatTheObjectsCannotSayIsNeverZero(t *testing.T) {
	port := pod("shop", "cart-2", "n2", "10.244.2.7", map[string]string{"app": "cart"})
	port.Ports = []model.ContainerPort{{Protocol: model.TCP, Port: 8080, HostPort: 18080}}
	for _, c := range []struct {
		name, line string
		changes    []any
		ofNode     string // what n2 listens on; "" = its agent does not say
		probe      bool
		exit       int
		code       flow.Code // of the cause, or of what else is wrong
		says       string
	}{
		{"a node's port, and nobody is asked", "pod web -> tcp n2:12345", nil, "", false, ExitUnknown, "", "whether a process of node n2 listens on port 12345/tcp"},
		{"a node's port with a process", "pod web -> tcp n2:22", nil, "0.0.0.0:22", false, ExitOK, "", "listens on 0.0.0.0:22"},
		{"a node's port without", "pod web -> tcp n2:12345", nil, "0.0.0.0:22", false, ExitBroken, flow.NoSuchNodePort, "nothing listens on it there"},
		{"a node's port that is a Pod's hostPort", "pod web -> tcp n2:18080", []any{port}, "0.0.0.0:22", false, ExitOK, "", "hostPort of Pod shop/cart-2 -> 10.244.2.7:8080"},
		{"beyond the cluster", "pod web -> tcp 198.51.100.1:443", nil, "", false, ExitUnknown, "", "whether 198.51.100.1:443 answers"},
		{"beyond the cluster, with a probe", "pod web -> tcp 198.51.100.1:443", nil, "", true, ExitOK, "", "198.51.100.1:443: answered"},
		{"a name beyond the cluster", "pod web -> tcp www.example:443", nil, "", false, ExitUnknown, "", "whether www.example answers"},
		{"an address of the cluster's Pod range that nobody has", "pod web -> tcp 10.244.77.1:80", nil, "", false, ExitBroken, flow.NoSuchPodAddress, "in no node's part"},
		{"one of a node's range", "pod web -> tcp 10.244.2.99:80", nil, "", false, ExitBroken, flow.NoSuchPodAddress, "10.244.2.0/24, the Pod range of node n2"},
		{"an endpoint without a Pod beside others", "pod web -> tcp cart:80", []any{with(slice(cart(func(*model.Service) {}), pod("shop", "cart-1", "n1", "10.244.1.7", nil)), strayEndpoint)},
			"", false, ExitOK, flow.PodGone, "the endpoint 10.244.77.1 is in 10.244.0.0/16"},
		{"an endpoint without a Pod alone", "pod web -> tcp cart:80", []any{with(slice(cart(func(*model.Service) {})), strayEndpoint)}, "", false, ExitBroken, flow.PodGone, "-n shop -l kubernetes.io/service-name=cart"},
		{"a headless Service by the Service's port", "get http://web-h/ from pod web", webH(), "", false, ExitBroken, flow.NothingListens, "use web-h.shop:8080: the name of a headless Service leads to the Pods"},
		{"a headless Service as an object", "pod web -> tcp svc/web-h", webH(), "", false, ExitOK, "", "10.244.1.7:8080"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, x := ranged(c.changes...)
			q, err := ParseLine(c.line, "shop")
			if err != nil {
				t.Fatal(err)
			}
			p := x.Walk(t.Context(), q, &fakeView{x: x})
			if p.Err != nil {
				t.Fatal(p.Err)
			}
			l := &live{view: &fakeView{x: NewIndex(s)}}
			layers := l.layers()
			if c.ofNode != "" {
				layers.OfNode = func(context.Context, string) (sockets.Report, error) {
					return sockets.Report{Listeners: []sockets.Listener{{Proto: "tcp", Addr: netip.MustParseAddrPort(c.ofNode)}}}, nil
				}
			}
			if c.probe {
				layers.Probe = l.probe
			}
			x.Compare(t.Context(), &p, layers)
			r := x.Report(p, false)
			var out strings.Builder
			r.Text(&out, Colour{})
			for _, st := range r.Steps {
				out.WriteString(strings.Join(st.Observed, "\n"))
			}
			if r.Exit != c.exit || !strings.Contains(out.String(), c.says) || c.code != "" && !strings.Contains(out.String(), string(c.code)) {
				t.Errorf("exit %d, want %d with %s %q:\n%s", r.Exit, c.exit, c.code, c.says, out.String())
			}
			if c.code == "" && (r.Finding != nil || len(r.Others) > 0) {
				t.Errorf("found %+v %+v", r.Finding, r.Others)
			}
		})
	}
}

func TestWithoutPodsToSeeNoAddressIsCalledUnused(t *testing.T) {
	var none []any
	for _, o := range shop() {
		if p, ok := o.(*model.Pod); ok {
			none = append(none, gone{p})
		}
	}
	s, x := ranged(none...)
	svc := s.Services.At(model.N("shop", "cart"))
	q, _ := ParseLine("node n1 -> tcp cart.shop:80", "shop")
	p := x.Walk(t.Context(), q, &fakeView{x: x})
	if r := x.Report(p, true); r.Finding != nil || r.Exit != ExitUnknown || len(x.Strays(svc)) > 0 {
		t.Errorf("exit %d, %+v, strays %+v: want unknown, for nobody can know", r.Exit, r.Finding, x.Strays(svc))
	}
}

func TestTheBrokenLineNamesEveryTargetAndThoseAboveAreOK(t *testing.T) {
	s := build()
	p, _ := walk(t, s, "pod web -> tcp cart:80", nil)
	x := NewIndex(s)
	l := &live{view: &fakeView{x: x}, listen: map[string]string{"cart-1": "0.0.0.0:1", "cart-2": "0.0.0.0:1"}}
	x.Compare(t.Context(), &p, l.layers())
	r := x.Report(p, false)
	var out strings.Builder
	r.Text(&out, Colour{})
	for _, want := range []string{" 3 network  ok ", " 4 process  BROKEN      Pod shop/cart-1 at 10.244.1.7:8080; Pod shop/cart-2 at 10.244.2.7:8080"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
}

func TestPodsThatEndDoNotHideThatNoneIsWanted(t *testing.T) {
	ends := cartPods(func(p *model.Pod) { p.Ready, p.Deleting = false, true })
	s := build(append(ends, &model.Workload{Kind: "Deployment", Name: model.N("shop", "cart"), Labels: map[string]string{"app": "cart"}})...)
	p, _ := walk(t, s, "pod web -> tcp cart:80", nil)
	if r := NewIndex(s).Report(p, true); r.Finding == nil || r.Finding.Code != flow.ScaledToZero {
		t.Errorf("got %+v", r.Finding)
	}
}

func TestANodeThatDoesNotAnswerIsNamedOnce(t *testing.T) {
	s := build()
	p, _ := walk(t, s, "pod web -> tcp cart:80", nil)
	x := NewIndex(s)
	l := &live{view: &fakeView{x: x, errs: map[string]error{"dns": ErrAgentDown, "proxy": ErrAgentDown, "podnet": ErrAgentDown}}}
	x.Compare(t.Context(), &p, l.layers())
	r := x.Report(p, false)
	var n1 []string
	for _, line := range r.NotChecked {
		if strings.Contains(line, "on node n1") {
			n1 = append(n1, line)
		}
	}
	if len(n1) != 1 || !strings.HasPrefix(n1[0], "name, service, network on node n1: ") {
		t.Errorf("not checked: %q", r.NotChecked)
	}
}

func TestRulesThatSwallowQuestionsAreNotAnEmptyAnswer(t *testing.T) {
	s := build(dnsServed()...)
	p, _ := walk(t, s, "pod web -> tcp cart:80", nil)
	x := NewIndex(s)
	l := &live{view: &fakeView{x: x, over: map[string]flow.Verdict{"proxy@n1": {Action: flow.Pass}}}}
	x.Compare(t.Context(), &p, l.layers())
	r := x.Report(p, false)
	if r.Finding == nil || r.Finding.Code != flow.RulesDiffer || !strings.HasPrefix(r.Summary, "dropped at name") || !strings.Contains(r.Finding.Fix, "within a minute") {
		t.Errorf("%s: %+v", r.Summary, r.Finding)
	}
}

func TestARefusedNodePortIsNotMendedByATargetPort(t *testing.T) {
	s, x := ranged()
	q, _ := ParseLine("pod web -> tcp n2:12345", "shop")
	p := x.Walk(t.Context(), q, &fakeView{x: x})
	l := &live{view: &fakeView{x: NewIndex(s)}, probes: map[string]probe.Answer{"172.18.0.2:12345": {Result: probe.Refused}}}
	layers := l.layers()
	layers.Probe = l.probe
	x.Compare(t.Context(), &p, layers)
	r := x.Report(p, false)
	if r.Finding == nil || r.Exit != ExitBroken || strings.Contains(r.Finding.Fix, "targetPort") || r.Finding.Object != "node n2" {
		t.Errorf("exit %d: %+v", r.Exit, r.Finding)
	}
}
