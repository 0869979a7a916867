package proxy

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/model"
)

func snapshot(t *testing.T, name string) *model.Snapshot {
	t.Helper()
	for _, c := range hoptest.ServiceCases() {
		if c.Name == name {
			return c.Snapshot
		}
	}
	t.Fatalf("no case %q", name)
	return nil
}

// from parses "pod 10.244.1.200", "node 192.168.1.1" or "outside 203.0.113.9".
func from(who, dst string) flow.Flow {
	kind, addr, _ := strings.Cut(who, " ")
	f := flow.Flow{From: flow.Kind(kind), Node: hoptest.NodeA, Proto: flow.TCP, Dst: netip.MustParseAddrPort(dst)}
	if addr != "" {
		f.Src = netip.AddrPortFrom(netip.MustParseAddr(addr), 0)
	}
	return f
}

func TestDeclaredFollowsThePolicies(t *testing.T) {
	const pod, far, node, outside = "pod 10.244.1.200", "pod 10.244.2.200", "node 192.168.1.1", "outside 203.0.113.9"
	for _, c := range []struct {
		name, snapshot, from, to, want string
		code                           flow.Code
	}{
		{"a Pod of the node keeps its address", "three endpoints", pod, "10.96.0.7:80", "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080", ""},
		{"a Pod of another node does not", "one endpoint", far, "10.96.0.7:80", "forward 10.244.1.5:8080 masquerade", ""},
		{"the node does not", "one endpoint", node, "10.96.0.7:80", "forward 10.244.1.5:8080 masquerade", ""},
		{"an endpoint reaches itself as the node", "one endpoint", "pod 10.244.1.5", "10.96.0.7:80", "forward 10.244.1.5:8080 masquerade", ""},
		{"no endpoint is a refusal", "no ready endpoint", pod, "10.96.0.7:80", "refused", flow.PodsNotReady},
		{"another port is a refusal", "one endpoint", pod, "10.96.0.7:22", "refused", flow.NoSuchServicePort},
		{"a NodePort hides the client", "exposed", outside, "192.168.1.1:30007", "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080 masquerade", ""},
		{"Local keeps it", "external Local with an endpoint here", outside, "192.168.1.1:30007", "forward 10.244.1.5:8080", ""},
		{"Local without endpoint is silence", "external Local with endpoints elsewhere", outside, "198.51.100.7:80", "dropped", flow.ExternalLocalNone},
		{"but not for Pods", "external Local with endpoints elsewhere", pod, "198.51.100.7:80", "forward 10.244.2.6:8080 10.244.2.7:8080", ""},
		{"nor for the node", "external Local with endpoints elsewhere", node, "198.51.100.7:80", "forward 10.244.2.6:8080 10.244.2.7:8080 masquerade", ""},
		{"internal Local without endpoint is silence", "internal Local with endpoints elsewhere", pod, "10.96.0.7:80", "dropped", flow.InternalLocalNone},
		{"Local without any endpoint is a refusal", "external Local without endpoints", outside, "198.51.100.7:80", "refused", ""},
		{"a source out of the ranges is silence", "source ranges of one address", "outside 192.0.2.1", "198.51.100.7:80", "dropped", flow.SourceNotAllowed},
		{"an unknown source too", "source ranges of one address", "outside", "198.51.100.7:80", "dropped", flow.SourceNotAllowed},
		{"the ranges do not guard the NodePort", "source ranges of one address", "outside 192.0.2.1", "192.168.1.1:30007", "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080 masquerade", ""},
		{"ranges of IPv4 guard an IPv6 address", "guarded in one family only", "outside 2001:db8:1::9", "[2001:db8:2::7]:80", "dropped", flow.SourceNotAllowed},
		{"affinity is sticky", "affinity", pod, "10.96.0.7:80", "forward 10.244.1.5:8080 10.244.2.6:8080 10.244.2.7:8080 sticky", ""},
		{"a node port that nobody has is the node's", "one endpoint", outside, "192.168.1.1:30999", "pass", flow.NoSuchNodePort},
		{"an unused address of the range", "one endpoint", pod, "10.96.0.99:80", "dropped", flow.AddressUnused},
		{"anything else", "one endpoint", pod, "1.1.1.1:80", "pass", ""},
		{"another proxy's Service", "another proxy's Service", pod, "10.97.0.7:80", "pass", ""},
		{"a target on the node itself sees the client", "endpoints of the host network with one address and two ports", far, "10.96.0.7:80", "forward 192.168.1.1:8080 192.168.1.1:9000", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := New(Options{Node: hoptest.NodeA, ServiceCIDRs: []netip.Prefix{netip.MustParsePrefix("10.96.0.0/16")}})
			v := p.Declared(snapshot(t, c.snapshot), from(c.from, c.to))
			if v.String() != c.want {
				t.Errorf("got %q (%s), want %q", v, v.Why, c.want)
			}
			if c.code != "" && (len(v.Findings) == 0 || v.Findings[0].Code != c.code) {
				t.Errorf("findings %+v, want %s first", v.Findings, c.code)
			}
			if v.Action != flow.Pass && v.Action != flow.Dropped && !strings.Contains(v.Why, "shop/cart") {
				t.Errorf("Why does not name the Service: %q", v.Why)
			}
		})
	}
}

func TestAnEmptyServiceSaysWhy(t *testing.T) {
	pod := func(ready bool, labels map[string]string, ports ...model.ContainerPort) *model.Pod {
		return &model.Pod{Name: model.N("shop", "cart-1"), Labels: labels, Phase: "Running", Ready: ready, Problem: "ContainersNotReady: cart", Ports: ports}
	}
	app := map[string]string{"app": "cart"}
	named := func(s *model.Service) { s.Ports[0].TargetPort = model.PortRef{Name: "web"} }
	plain := func(s *model.Service) {}
	without := func(s *model.Service) { s.Selector = nil }
	for _, c := range []struct {
		name string
		edit func(*model.Service)
		objs []any
		want flow.Code
		says string
	}{
		{"nothing matches", plain, []any{pod(true, map[string]string{"app": "other"})}, flow.SelectorNoPod, "app=cart"},
		{"scaled to zero", plain, []any{&model.Workload{Kind: "Deployment", Name: model.N("shop", "cart"), Labels: app}}, flow.ScaledToZero, "Deployment shop/cart"},
		{"not ready", plain, []any{pod(false, app)}, flow.PodsNotReady, "1 Pods match"},
		{"the target port has no such name", named, []any{pod(true, app, model.ContainerPort{Name: "http", Port: 8080})}, flow.TargetPortNoName, `"web"`},
		{"the slices are old", plain, []any{pod(true, app)}, flow.SlicesStale, "1 ready Pods"},
		{"nobody writes slices", without, nil, flow.NoSelectorNoSlices, "no selector"},
		{"somebody writes slices, none ready", without, []any{hoptest.Slice("cart", hoptest.Unready("10.244.1.5"))}, flow.PodsNotReady, "EndpointSlices"},
		{"a snapshot without Pods", plain, []any{hoptest.Slice("cart", hoptest.Unready("10.244.1.5"))}, flow.PodsNotReady, "EndpointSlices"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := hoptest.NewCluster().Put(hoptest.Service("cart", 7, c.edit)).Put(c.objs...).Snapshot()
			v := New(Options{Node: hoptest.NodeA}).Declared(s, from("pod 10.244.1.200", "10.96.0.7:80"))
			if v.Action != flow.Refused || len(v.Findings) != 1 {
				t.Fatalf("got %s with %d findings", v, len(v.Findings))
			}
			if f := v.Findings[0]; f.Code != c.want || !strings.Contains(f.Cause, c.says) || f.Object != "Service shop/cart" || f.Fix == "" {
				t.Errorf("got %+v, want %s saying %q", f, c.want, c.says)
			}
		})
	}
}
