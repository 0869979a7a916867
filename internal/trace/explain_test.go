package trace

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// with returns a changed copy of an object.
func with[T any](o *T, change func(*T)) *T {
	c := *o
	change(&c)
	return &c
}

func cart(change func(*model.Service)) *model.Service {
	return with(service("shop", "cart", "10.96.0.7", "app=cart", 80, 8080), change)
}

func cartPods(change func(*model.Pod)) []any {
	var pods []*model.Pod
	for _, o := range shop() {
		if p, ok := o.(*model.Pod); ok && p.Labels["app"] == "cart" {
			pods = append(pods, with(p, change))
		}
	}
	svc := cart(func(*model.Service) {})
	return []any{pods[0], pods[1], slice(svc, pods...)}
}

func noCartPods() []any {
	return []any{gone{&model.Pod{Name: model.N("shop", "cart-1")}}, gone{&model.Pod{Name: model.N("shop", "cart-2")}},
		slice(cart(func(*model.Service) {}))}
}

func emptySlice() *model.EndpointSlice { return slice(cart(func(*model.Service) {})) }

func front(change func(*model.Ingress)) *model.Ingress {
	for _, o := range shop() {
		if i, ok := o.(*model.Ingress); ok {
			c := *i
			c.Rules = []model.IngressRule{{Host: i.Rules[0].Host, Paths: append([]model.IngressPath(nil), i.Rules[0].Paths...)}}
			change(&c)
			return &c
		}
	}
	return nil
}

func TestTheCauseIsNamedWithItsFactsAndItsFix(t *testing.T) {
	const ask = "pod web -> tcp cart:80"
	down := func(p *model.Pod) {
		p.Ready, p.Problem, p.Probe = false, "ContainersNotReady: cart", "GET :8080/healthz"
	}
	for _, c := range []struct {
		name, line string
		changes    []any
		over       map[string]flow.Verdict
		code       flow.Code
		object     string
		says       []string // in cause, evidence or fix
	}{
		{"a selector in another case", ask, []any{cart(func(s *model.Service) { s.Selector = map[string]string{"app": "Cart"} }), emptySlice()}, nil,
			flow.SelectorNoPod, "Service shop/cart", []string{"app=Cart matches no Pod in namespace shop", "- app: Cart\n+ app: cart"}},
		{"a selector mistyped", ask, []any{cart(func(s *model.Service) { s.Selector = map[string]string{"app": "crat"} }), emptySlice()}, nil,
			flow.SelectorNoPod, "Service shop/cart", []string{"- app: crat\n+ app: cart"}},
		{"another key with the same value", ask, []any{cart(func(s *model.Service) { s.Selector = map[string]string{"name": "cart"} }), emptySlice()}, nil,
			flow.SelectorNoPod, "Service shop/cart", []string{"- name: cart\n+ app: cart"}},
		{"one label of two differs", ask, []any{cart(func(s *model.Service) { s.Selector = map[string]string{"app": "cart", "tier": "blue"} }), emptySlice(),
			with(pod("shop", "cart-1", "n1", "10.244.1.7", nil), func(p *model.Pod) { p.Labels = map[string]string{"app": "cart", "tier": "green"} })}, nil,
			flow.SelectorNoPod, "Service shop/cart", []string{"- tier: blue\n+ tier: green"}},
		{"the Pods are in another namespace", ask, []any{cart(func(s *model.Service) { s.Selector = map[string]string{"app": "pay"} }), emptySlice(),
			pod("bank", "pay-1", "n1", "10.244.1.50", map[string]string{"app": "pay"})}, nil,
			flow.SelectorNoPod, "Service shop/cart", []string{"the Pods that match are in namespace bank"}},
		{"nothing is like the selector", ask, []any{cart(func(s *model.Service) { s.Selector = map[string]string{"app": "zzzzzz"} }), emptySlice()}, nil,
			flow.SelectorNoPod, "Service shop/cart", []string{"kubectl get pods -n shop --show-labels"}},
		{"scaled to zero", ask, append(noCartPods(), &model.Workload{Kind: "Deployment", Name: model.N("shop", "cart"), Labels: map[string]string{"app": "cart"}}), nil,
			flow.ScaledToZero, "Deployment shop/cart", []string{"zero replicas", "kubectl scale -n shop deployment/cart --replicas=1"}},
		{"wanted, and none was made", ask, noCartPods(), nil, flow.SelectorNoPod, "Deployment shop/cart", []string{"it has made no Pod"}},
		{"Pods not ready", ask, cartPods(down), nil, flow.PodsNotReady, "Service shop/cart",
			[]string{"2 Pods match, none is ready: ContainersNotReady: cart", "declared readiness GET :8080/healthz", "kubectl describe pod -n shop cart-1"}},
		{"Pods crash", ask, cartPods(func(p *model.Pod) { p.Ready, p.Problem = false, "CrashLoopBackOff" }), nil, flow.PodsNotReady, "Service shop/cart",
			[]string{"kubectl logs -n shop cart-1 --previous"}},
		{"a named targetPort that nobody has", ask, []any{cart(func(s *model.Service) { s.Ports[0].TargetPort = model.PortRef{Name: "htp"} }),
			with(emptySlice(), func(s *model.EndpointSlice) { s.Ports = nil })}, nil,
			flow.TargetPortNoName, "Service shop/cart", []string{`targetPort is "htp"`, "- targetPort: htp\n+ targetPort: http", "8080/tcp http"}},
		{"the slices are stale", ask, []any{emptySlice(), with(pod("kube-system", "podway-controller-1", "n1", "172.18.0.1", map[string]string{"app": "podway-controller"}), func(p *model.Pod) {
			p.Ready, p.Problem = false, "CrashLoopBackOff"
		})}, nil, flow.SlicesStale, "Service shop/cart", []string{"2 Pods match and are ready", "Pod kube-system/podway-controller-1 Running on n1: CrashLoopBackOff"}},
		{"no selector and no slice", ask, []any{cart(func(s *model.Service) { s.Selector = nil }), gone{&model.EndpointSlice{Name: model.N("shop", "cart-x")}}}, nil,
			flow.NoSelectorNoSlices, "Service shop/cart", []string{"kubernetes.io/service-name: cart"}},
		{"all nodes of the Pods are down", ask, append(cartPods(func(p *model.Pod) { p.Ready, p.Node = false, "n2" }), &model.Node{Name: "n2", Addrs: []netip.Addr{addr("172.18.0.2")}}), nil,
			flow.NodeNotReady, "node n2", []string{"kubectl describe node n2"}},
		{"no Pod range", ask, []any{with(cartPods(func(p *model.Pod) { p.Ready, p.Phase, p.Addrs = false, "Pending", p.Addrs[:1] })[0].(*model.Pod),
			func(p *model.Pod) { p.Addrs = nil }), gone{&model.Pod{Name: model.N("shop", "cart-2")}}, emptySlice()}, nil,
			flow.NoPodCIDR, "node n1", []string{"spec.podCIDRs", "--allocate-node-cidrs"}},
		{"no Pod address is left", ask, []any{with(cartPods(func(p *model.Pod) { p.Ready, p.Phase = false, "Pending" })[0].(*model.Pod),
			func(p *model.Pod) { p.Addrs = nil }), gone{&model.Pod{Name: model.N("shop", "cart-2")}}, emptySlice(),
			&model.Node{Name: "n1", Ready: true, Addrs: []netip.Addr{addr("172.18.0.1")}, PodCIDRs: []netip.Prefix{netip.MustParsePrefix("10.244.1.4/30")}}}, nil,
			flow.PodAddressesOut, "node n1", []string{"all 1 of 10.244.1.4/30 are taken"}},
		{"the Pods' port instead of the Service's", "pod web -> tcp cart:8080", nil, nil, flow.NoSuchServicePort, "Service shop/cart",
			[]string{"that is the Pods' port; the Service's is 80", "use cart.shop:80"}},
		{"the other protocol", "pod web -> udp cart:80", nil, map[string]flow.Verdict{"proxy": {Action: flow.Refused}}, flow.NoSuchServicePort, "Service shop/cart", []string{"it is tcp there"}},
		{"no such node port", "outside -> tcp n1:31234", nil, map[string]flow.Verdict{"proxy": {Action: flow.Refused}}, flow.NoSuchNodePort, "node n1",
			[]string{"no Service has the node port 31234", "podway-ingress has node port 30080"}},
		{"an address that nobody has", "pod web -> tcp 10.96.0.99:80", nil, map[string]flow.Verdict{"proxy": {Action: flow.Refused}}, flow.AddressUnused, "address 10.96.0.99", nil},
		{"internal traffic is local and here is no Pod", ask, []any{cart(func(s *model.Service) { s.InternalPolicyLocal = true }),
			cartPods(func(p *model.Pod) { p.Node = "n2" })[0], cartPods(func(p *model.Pod) { p.Node = "n2" })[2]},
			map[string]flow.Verdict{"proxy": {Action: flow.Dropped}}, flow.InternalLocalNone, "Service shop/cart",
			[]string{"node n1 has none of the 2 ready Pods", "declared ready endpoints are on: n2", "+ internalTrafficPolicy: Cluster"}},
		{"outside traffic is local and the node has no Pod", "outside -> tcp n1:30080", []any{ingressLB(func(s *model.Service) { s.ExternalPolicyLocal = true })},
			map[string]flow.Verdict{"proxy": {Action: flow.Dropped}}, flow.ExternalLocalNone, "Service kube-system/podway-ingress", []string{"or send to n2"}},
		{"the client is not allowed", "outside 203.0.113.9 -> tcp 192.0.2.80:80", []any{ingressLB(func(s *model.Service) { s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")} })},
			map[string]flow.Verdict{"proxy": {Action: flow.Dropped}}, flow.SourceNotAllowed, "Service kube-system/podway-ingress", []string{"203.0.113.9", "+ - 203.0.113.9/32"}},
		{"a name mistyped", "pod web -> tcp crat:80", nil, nil, flow.NoSuchName, "name crat", []string{"Service cart is spelled almost like it", "use cart"}},
		{"a name of another namespace", "pod web -> tcp podway-ingress:80", nil, nil, flow.NoSuchName, "name podway-ingress", []string{"use podway-ingress.kube-system"}},
		{"a namespace mistyped", "pod web -> tcp cart.shpo:80", nil, nil, flow.NoSuchName, "name cart.shpo", []string{"use cart"}},
		{"a name like nothing", "pod web -> tcp qqqqqq:80", nil, nil, flow.NoSuchName, "name qqqqqq", []string{"declared Services of shop: cart"}},
		{"a headless name without endpoints", ask, append(cartPods(down), cart(func(s *model.Service) { s.Headless, s.ClusterIPs = true, nil })),
			map[string]flow.Verdict{"dns": {Action: flow.Answer, Rcode: "NXDOMAIN"}}, flow.PodsNotReady, "Service shop/cart", []string{"headless: its name exists only"}},
		{"DNS is not synced", "pod web -> tcp qqqqqq:80", nil, map[string]flow.Verdict{"dns": {Action: flow.Answer, Rcode: "SERVFAIL"}}, flow.DNSNotSynced, "DNS server of node n1", nil},
		{"DNS has no Pod", ask, []any{with(service("kube-system", "kube-dns", "10.96.0.10", "k8s-app=dns", 53, 53), func(s *model.Service) { s.Ports[0].Protocol = model.UDP })},
			map[string]flow.Verdict{"dns": {Action: flow.Dropped}}, flow.DNSServerDown, "Service kube-system/kube-dns", []string{"matches no Pod in namespace kube-system"}},
		{"the DNS Service has no Pod, though the server would know the name", ask, []any{kubeDNS()}, nil, flow.DNSServerDown, "Service kube-system/kube-dns",
			[]string{"the client's questions to 10.96.0.10:53 are refused: it has no selector, and nobody has written an EndpointSlice"}},
		{"no pool", "outside -> tcp pay.shop:80", []any{pay("", ""), gone{&model.Pool{Name: "default"}}}, nil, flow.LBPending, "Service shop/pay", []string{"there is no AddressPool"}},
		{"an address of no pool is asked for", "outside -> tcp pay.shop:80", []any{pay("", "198.51.100.7")}, nil, flow.LBPending, "Service shop/pay", []string{"198.51.100.7, which is in no AddressPool"}},
		{"nobody gives an address of the pool", "outside -> tcp pay.shop:80", []any{pay("", "")}, nil, flow.LBPending, "Service shop/pay", []string{"AddressPool default has free addresses, and no controller has given it one"}},
		{"the controller says why it gave none", "outside -> tcp pay.shop:80", []any{with(pay("", ""), func(s *model.Service) { s.NoAddress = "8.8.8.8 is in no AddressPool" })}, nil, flow.LBPending, "Service shop/pay", []string{"8.8.8.8 is in no AddressPool", "condition podway.io/AddressAllocated"}},
		{"the pools are empty", "outside -> tcp pay.shop:80", []any{pay("", ""), &model.Pool{Name: "default", AutoAssign: true, Ranges: []model.AddrRange{{From: addr("192.0.2.80"), To: addr("192.0.2.80")}}}}, nil, flow.LBPending, "Service shop/pay", []string{"no AddressPool has a free address"}},
		{"another controller's class", "outside -> tcp pay.shop:80", []any{pay("other.io/lb", "")}, nil, flow.LBForeignClass, "Service shop/pay", []string{"- loadBalancerClass: other.io/lb"}},
		{"every node is excluded", "get http://shop.example/ from outside", []any{
			&model.Node{Name: "n1", Ready: true, ExcludeLB: true, Addrs: []netip.Addr{addr("172.18.0.1")}}, &model.Node{Name: "n2", Ready: true, ExcludeLB: true, Addrs: []netip.Addr{addr("172.18.0.2")}}},
			map[string]flow.Verdict{"announce": {Action: flow.Dropped}}, flow.LBNotAnnounced, "Service kube-system/podway-ingress", []string{"every node has the label", "exclude-from-external-load-balancers-"}},
		{"the ingress has no Pod", "get http://shop.example/ from outside", []any{with(pod("kube-system", "podway-ingress-x", "n2", "10.244.2.9", nil), func(p *model.Pod) {
			p.Ready, p.Labels, p.Problem = false, map[string]string{"app": "podway-ingress"}, "CrashLoopBackOff"
		}), with(slice(ingressLB(func(*model.Service) {})), func(s *model.EndpointSlice) {})}, nil, flow.IngressDown, "Service kube-system/podway-ingress", []string{"CrashLoopBackOff"}},
		{"no rule for the host", "get http://shp.example/ from outside via n2", []any{front(func(i *model.Ingress) {})}, nil, flow.IngressNoRule, "host shp.example", []string{"shop.example is spelled almost like it"}},
		{"no rule for the path", "get http://shop.example/x from outside", []any{front(func(i *model.Ingress) { i.Rules[0].Paths[0].Path = "/cart" })}, nil, flow.IngressNoRule, "host shop.example", []string{"Prefix /cart (Ingress shop/front)"}},
		{"an Ingress without a class", "get http://shop.example/ from outside", []any{front(func(i *model.Ingress) { i.Class = "" })},
			map[string]flow.Verdict{"ingress": {Action: flow.Answer, Status: 404}}, flow.IngressNoClass, "Ingress shop/front", []string{"+ ingressClassName: podway"}},
		{"an Ingress of a class that does not exist", "get http://shop.example/ from outside", []any{front(func(i *model.Ingress) { i.Class = "nginx" })},
			map[string]flow.Verdict{"ingress": {Action: flow.Answer, Status: 404}}, flow.IngressNoClass, "Ingress shop/front", []string{"patch ingress front", `"ingressClassName":"podway"`}},
		{"an Ingress of a missing Service", "get http://shop.example/ from outside", []any{front(func(i *model.Ingress) { i.Rules[0].Paths[0].Backend.Service = "carts" })},
			map[string]flow.Verdict{"ingress": {Action: flow.Answer, Status: 503}}, flow.IngressNoService, "Ingress in namespace shop", []string{"- name: carts\n+ name: cart"}},
		{"an Ingress of the Pods' port", "get http://shop.example/ from outside", []any{front(func(i *model.Ingress) { i.Rules[0].Paths[0].Backend.Port.Number = 8080 })},
			map[string]flow.Verdict{"ingress": {Action: flow.Answer, Status: 503}}, flow.IngressNoPort, "Service shop/cart", []string{"- 8080\n+ 80"}},
		{"an Ingress whose Service has no ready Pod", "get http://shop.example/ from outside", cartPods(down), nil, flow.PodsNotReady, "Service shop/cart", []string{"so the ingress answers 503"}},
		{"an older Ingress of another controller for the same host is not looked at", "get http://shop.example/ from outside", append(cartPods(down),
			&model.IngressClass{Name: "nginx", Controller: "k8s.io/ingress-nginx"}, service("shop", "other", "10.96.0.11", "app=none", 80, 8080),
			&model.Ingress{Name: model.N("shop", "a"), Class: "nginx", Rules: []model.IngressRule{{Host: "shop.example",
				Paths: []model.IngressPath{{Path: "/", Type: model.PathPrefix, Backend: model.IngressBackend{Service: "other", Port: model.PortRef{Number: 80}}}}}}}),
			map[string]flow.Verdict{"ingress": {Action: flow.Answer, Status: 503}}, flow.PodsNotReady, "Service shop/cart", nil},
		{"an Ingress of a resource", "get http://shop.example/ from outside", []any{front(func(i *model.Ingress) {
			i.Rules[0].Paths[0].Backend = model.IngressBackend{Resource: "Bucket/pics"}
		})}, map[string]flow.Verdict{"ingress": {Action: flow.Answer, Status: 503}}, flow.IngressUnsupported, "Ingress in namespace shop", []string{"Bucket/pics"}},
		{"what the hop itself knows is taken", "pod web -> tcp 10.96.0.7:80", nil, map[string]flow.Verdict{"podnet@n1": {Action: flow.Dropped, Findings: []flow.Finding{
			{Code: flow.ForwardingOff, Severity: flow.Error, Object: "node n1", Cause: "net.ipv4.ip_forward is 0"}}}}, flow.ForwardingOff, "node n1", nil},
		{"it arrives with the wrong certificate", "get https://shop.example/ from outside", []any{ingressLB(func(s *model.Service) { s.Ports[0].Port = 443 })},
			map[string]flow.Verdict{"ingress": {Action: flow.Forward, Targets: []netip.AddrPort{netip.MustParseAddrPort("10.244.1.7:8080")}, Findings: []flow.Finding{
				{Code: flow.IngressBadSecret, Severity: flow.Error, Object: "Ingress shop/front", Cause: "Secret shop/tls does not exist"}}}}, flow.IngressBadSecret, "Ingress shop/front", nil},
		{"an endpoint whose Pod is gone", "pod web -> tcp 10.96.0.7:80", noPodButSlices(), nil, flow.PodGone, "Service shop/cart", []string{"names Pod shop/cart-1, which does not exist"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := build(c.changes...)
			p, _ := walk(t, s, c.line, c.over)
			r := NewIndex(s).Report(p, true)
			if r.Finding == nil {
				t.Fatalf("no cause; steps: %s", brief(p))
			}
			f, all := *r.Finding, r.Finding.Cause+"\n"+strings.Join(r.Finding.Evidence, "\n")+"\n"+r.Finding.Fix
			if f.Code != c.code || f.Object != c.object {
				t.Errorf("got %s %s, want %s %s\n%s\n%s", f.Code, f.Object, c.code, c.object, all, brief(p))
			}
			for _, want := range c.says {
				if !strings.Contains(all, want) {
					t.Errorf("%q is not said in:\n%s", want, all)
				}
			}
			if r.Exit != ExitBroken {
				t.Errorf("exit %d, want %d", r.Exit, ExitBroken)
			}
		})
	}
}

func ingressLB(change func(*model.Service)) *model.Service {
	for _, o := range shop() {
		if s, ok := o.(*model.Service); ok && s.Name.Name == "podway-ingress" {
			return with(s, change)
		}
	}
	return nil
}

func pay(class, asked string) *model.Service {
	s := service("shop", "pay", "10.96.0.9", "app=cart", 80, 8080)
	s.Type, s.LoadBalancerClass = model.LoadBalancer, class
	if asked != "" {
		s.RequestedLBIP = addr(asked)
	}
	return s
}

func noPodButSlices() []any {
	return []any{gone{&model.Pod{Name: model.N("shop", "cart-1")}}, gone{&model.Pod{Name: model.N("shop", "cart-2")}}}
}

func TestASoundPathHasNoCause(t *testing.T) {
	for _, line := range []string{"pod web -> tcp cart:80", "get http://shop.example/ from outside", "node n1 -> tcp cart.shop:80", "dig A cart from pod web"} {
		s := build()
		p, _ := walk(t, s, line, nil)
		r := NewIndex(s).Report(p, true)
		if r.Finding != nil || len(r.Others) > 0 || r.Exit != ExitOK {
			t.Errorf("%s: exit %d, %+v %+v", line, r.Exit, r.Finding, r.Others)
		}
	}
}
