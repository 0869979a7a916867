package trace

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// fakeView answers as the simplest right hops would; over overrides single hops ("proxy", or "proxy@n1").
type fakeView struct {
	x    *Index
	over map[string]flow.Verdict
	errs map[string]error
	asks []string
}

func (v *fakeView) Verdict(_ context.Context, hop, node string, f flow.Flow) (flow.Verdict, error) {
	v.asks = append(v.asks, hop+"@"+node+" "+f.Dst.String())
	for _, key := range []string{hop + "@" + node, hop} {
		if err, ok := v.errs[key]; ok {
			return flow.Verdict{}, err
		}
		if o, ok := v.over[key]; ok {
			return o, nil
		}
	}
	switch hop {
	case HopName:
		return v.dns(f), nil
	case HopAnnounce:
		return flow.Verdict{Action: flow.Pass, Node: "n2"}, nil
	case HopIngress:
		return v.ingress(f), nil
	case HopProxy:
		return v.proxy(f), nil
	}
	return flow.Verdict{Action: flow.Pass}, nil
}

func (v *fakeView) dns(f flow.Flow) flow.Verdict {
	if f.DNS.Type != "A" {
		return flow.Verdict{Action: flow.Answer, Rcode: "NXDOMAIN"}
	}
	for _, suffix := range append(f.DNS.Search, "") {
		abs := strings.TrimSuffix(f.DNS.Name+"."+suffix, ".")
		rest, ok := strings.CutSuffix(abs, ".svc.cluster.local")
		name, ns, _ := strings.Cut(rest, ".")
		svc := v.x.s.Services.At(model.N(ns, name))
		if !ok || svc == nil {
			continue
		}
		out := flow.Verdict{Action: flow.Answer, Rcode: "NOERROR", Name: abs + "."}
		for _, a := range svc.ClusterIPs {
			out.Records = append(out.Records, "A "+a.String())
		}
		if svc.Headless {
			v.x.s.Backends(svc.Name).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
				out.Records = append(out.Records, "A "+e.Addr.String())
			})
		}
		return out
	}
	if strings.HasSuffix(f.DNS.Name, ".example") {
		return flow.Verdict{Action: flow.Pass}
	}
	return flow.Verdict{Action: flow.Answer, Rcode: "NXDOMAIN"}
}

func (v *fakeView) proxy(f flow.Flow) flow.Verdict {
	svc, port := v.x.service(f.Dst, f.Proto)
	if svc == nil {
		return flow.Verdict{Action: flow.Pass}
	}
	if port == nil {
		return flow.Verdict{Action: flow.Refused}
	}
	if _, isNode := v.x.nodes[f.Dst.Addr()]; isNode && !f.DstLocal {
		return flow.Verdict{Action: flow.Pass}
	}
	var targets []netip.AddrPort
	if f.DNS != nil {
		panic("the proxy is asked about packets, not about names")
	}
	v.x.s.Backends(svc.Name).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		if e.Ready {
			targets = append(targets, netip.AddrPortFrom(e.Addr, sl.Ports[0].Port))
		}
	})
	if len(targets) == 0 {
		return flow.Verdict{Action: flow.Refused, Why: "no endpoint"}
	}
	return flow.Verdict{Action: flow.Forward, Targets: flow.SortTargets(targets)}
}

func (v *fakeView) ingress(f flow.Flow) flow.Verdict {
	svc, port := v.x.ingressBackend(f.HTTP)
	if port == nil {
		return flow.Verdict{Action: flow.Answer, Status: 404}
	}
	if len(v.x.ready(svc, port, true)) == 0 {
		return flow.Verdict{Action: flow.Answer, Status: 503}
	}
	return flow.Verdict{Action: flow.Forward, Targets: v.x.candidates(svc, port, true)}
}

// shop is a small cluster: two nodes; web (the client) on n1; cart, two Pods on n1 and n2, behind Service cart and an
// Ingress; the ingress proxy on n2 behind a LoadBalancer.
func shop() []any {
	labels := map[string]string{"app": "cart"}
	web := pod("shop", "web", "n1", "10.244.1.5", map[string]string{"app": "web"})
	c1, c2 := pod("shop", "cart-1", "n1", "10.244.1.7", labels), pod("shop", "cart-2", "n2", "10.244.2.7", labels)
	ing := pod("kube-system", "podway-ingress-x", "n2", "10.244.2.9", map[string]string{"app": "podway-ingress"})
	lb := service("kube-system", "podway-ingress", "10.96.0.80", "app=podway-ingress", 80, 8080)
	lb.Type, lb.LoadBalancerIPs = model.LoadBalancer, []model.LoadBalancerIP{{Addr: addr("192.0.2.80")}}
	lb.Ports[0].NodePort = 30080
	cart := service("shop", "cart", "10.96.0.7", "app=cart", 80, 8080)
	return []any{
		&model.Node{Name: "n1", Ready: true, Addrs: []netip.Addr{addr("172.18.0.1")}},
		&model.Node{Name: "n2", Ready: true, Addrs: []netip.Addr{addr("172.18.0.2")}},
		web, c1, c2, ing, cart, lb, slice(cart, c1, c2), slice(lb, ing),
		&model.Workload{Kind: "Deployment", Name: model.N("shop", "cart"), Replicas: 2, Labels: labels},
		&model.IngressClass{Name: "podway", Controller: "podway.io/ingress", Default: true},
		&model.Ingress{Name: model.N("shop", "front"), Class: "podway", Rules: []model.IngressRule{{Host: "shop.example",
			Paths: []model.IngressPath{{Path: "/", Type: model.PathPrefix, Backend: model.IngressBackend{Service: "cart", Port: model.PortRef{Number: 80}}}}}}},
		&model.Pool{Name: "default", Ranges: []model.AddrRange{{From: addr("192.0.2.80"), To: addr("192.0.2.99")}}, AutoAssign: true},
	}
}

func addr(s string) netip.Addr { return netip.MustParseAddr(s) }

func pod(ns, name, node, a string, labels map[string]string) *model.Pod {
	return &model.Pod{Name: model.N(ns, name), UID: "uid-" + name, Node: node, Addrs: []netip.Addr{addr(a)}, Phase: "Running",
		Ready: true, Labels: labels, Ports: []model.ContainerPort{{Name: "http", Protocol: model.TCP, Port: 8080}}}
}

func service(ns, name, ip, selector string, port, target uint16) *model.Service {
	svc := &model.Service{Name: model.N(ns, name), Type: model.ClusterIP, ClusterIPs: []netip.Addr{addr(ip)},
		IPFamilies: []string{"IPv4"}, Ports: []model.ServicePort{{Protocol: model.TCP, Port: port, TargetPort: model.PortRef{Number: target}}}}
	if k, v, ok := strings.Cut(selector, "="); ok {
		svc.Selector = map[string]string{k: v}
	}
	return svc
}

func slice(svc *model.Service, pods ...*model.Pod) *model.EndpointSlice {
	sl := &model.EndpointSlice{Name: model.N(svc.Name.Namespace, svc.Name.Name+"-x"), Service: svc.Name, AddressType: "IPv4",
		Ports: []model.EndpointPort{{Protocol: model.TCP, Port: 8080}}}
	for _, p := range pods {
		sl.Endpoints = append(sl.Endpoints, model.Endpoint{Addr: p.Addrs[0], Ready: p.Ready, Serving: p.Ready, Node: p.Node, Pod: p.Name, PodUID: p.UID})
	}
	return sl
}

// build makes the snapshot of shop with the changes put on top.
func build(changes ...any) *model.Snapshot {
	b := model.NewBuilder(nil)
	for _, o := range append(shop(), changes...) {
		if d, ok := o.(gone); ok {
			b.Delete(d.obj)
			continue
		}
		b.Put(o)
	}
	return b.Snapshot(time.Unix(0, 0))
}

// gone in the changes of build deletes the object.
type gone struct{ obj any }

func walk(t *testing.T, s *model.Snapshot, line string, over map[string]flow.Verdict) (Path, *fakeView) {
	t.Helper()
	q, err := ParseLine(line, "shop")
	if err != nil {
		t.Fatal(err)
	}
	v := &fakeView{x: NewIndex(s), over: over}
	p := Walk(t.Context(), s, q, v)
	if p.Err != nil {
		t.Fatalf("%s: %v", line, p.Err)
	}
	return p, v
}

// brief is "hop@node state" for every step.
func brief(p Path) string {
	var out []string
	for _, st := range p.Steps {
		out = append(out, st.Hop+"@"+st.Node+" "+string(st.State))
	}
	return strings.Join(out, "; ")
}
