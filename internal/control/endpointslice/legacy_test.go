package endpointslice

import (
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/podway/podway/internal/model"
)

func TestEndpointsHoldTheAddressesOfTheFirstFamily(t *testing.T) {
	svc := cart(func(s *model.Service) { s.IPFamilies = []string{ipv4, ipv6} })
	got := DesiredEndpoints(svc, []*model.Pod{
		pod(1, func(p *model.Pod) { p.Ready = false }), pod(0, func(p *model.Pod) { p.Addrs = append(p.Addrs, netip.MustParseAddr("fd00::1")) }),
		pod(2, func(p *model.Pod) { p.Deleting = true })}, nodes())
	want := []Subset{{
		Ready:    []Address{{Addr: netip.MustParseAddr("10.244.0.1"), Node: "node-0", Pod: model.N("shop", "cart-0000"), PodUID: "uid-0"}},
		NotReady: []Address{{Addr: netip.MustParseAddr("10.244.0.2"), Node: "node-1", Pod: model.N("shop", "cart-0001"), PodUID: "uid-1"}},
		Ports:    []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}},
	}}
	if d := cmp.Diff(want, got.Subsets, cmpopts.EquateComparable(netip.Addr{})); d != "" {
		t.Error(d)
	}
	if got.Labels[labelEndpointsBy] != EndpointsManagedBy || got.Labels["team"] != "red" {
		t.Errorf("labels %v", got.Labels)
	}
	for name, none := range map[string]*model.Service{
		"without selector": cart(func(s *model.Service) { s.Selector = nil }),
		"ExternalName":     cart(func(s *model.Service) { s.Type = model.ExternalName }),
	} {
		if DesiredEndpoints(none, pods(1), nodes()) != nil {
			t.Errorf("a Service %s gets Endpoints", name)
		}
	}
}

func TestEndpointsAreCutAtAThousandReadyFirst(t *testing.T) {
	all := pods(1300)
	for i := range 500 {
		all[i] = pod(i, func(p *model.Pod) { p.Ready = false })
	}
	got := DesiredEndpoints(cart(), all, nodes())
	if r, n := len(got.Subsets[0].Ready), len(got.Subsets[0].NotReady); r != 800 || n != 200 {
		t.Errorf("%d ready and %d not ready", r, n)
	}
	if got.Annotations[annotationOverCapacity] != "truncated" {
		t.Errorf("annotations %v", got.Annotations)
	}
	if got = DesiredEndpoints(cart(), pods(1000), nodes()); got.Annotations != nil {
		t.Errorf("a thousand is no more than fits: %v", got.Annotations)
	}
}

func TestEndpointsWrittenByHandAreMirrored(t *testing.T) {
	svc := cart(func(s *model.Service) { s.Selector = nil })
	http := []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 80}}
	ep := &Endpoints{Name: svc.Name, UID: "ep-uid", Labels: map[string]string{"zone": "dmz"},
		Annotations: map[string]string{"note": "x", annotationTrigger: "then", annotationLastApplied: "{}"},
		Subsets: []Subset{
			{Ready: []Address{{Addr: netip.MustParseAddr("192.0.2.1")}, {Addr: netip.MustParseAddr("2001:db8::1")}},
				NotReady: []Address{{Addr: netip.MustParseAddr("192.0.2.2"), Hostname: "b"}}, Ports: http},
			{Ready: []Address{{Addr: netip.MustParseAddr("192.0.2.1")}}, Ports: []model.EndpointPort{{Name: "admin", Protocol: model.TCP, Port: 81}}},
		}}
	got := Mirror(svc, ep, nil)
	want := "IPv4 admin/TCP/81/: =192.0.2.1,ready,serving\n" +
		"IPv4 http/TCP/80/: =192.0.2.1,ready,serving =192.0.2.2,host:b\n" +
		"IPv6 http/TCP/80/: =2001:db8::1,ready,serving\n"
	if d := cmp.Diff(want, text(got.Create)); d != "" {
		t.Error(d)
	}
	first := got.Create[0]
	if d := cmp.Diff(map[string]string{"note": "x"}, first.Annotations); d != "" || first.OwnerUID != "ep-uid" || first.ManagedBy != MirroredBy ||
		first.Labels["zone"] != "dmz" || first.Labels[labelServiceName] != "cart" {
		t.Errorf("owner %q, managed by %q, labels %v, annotations %s", first.OwnerUID, first.ManagedBy, first.Labels, d)
	}
	var c cluster
	c.apply(got)
	if again := Mirror(svc, ep, c.list()); !again.Empty() {
		t.Errorf("a second look wants changes: %+v", again)
	}
	ep2 := *ep
	ep2.Subsets = ep.Subsets[:1]
	if ch := Mirror(svc, &ep2, c.list()); len(ch.Delete) != 1 || len(ch.Update)+len(ch.Create) != 0 {
		t.Errorf("one port less is one slice less: %+v", ch)
	}
	for name, edit := range map[string]func(e *Endpoints){
		"asks not to be": func(e *Endpoints) { e.Labels = map[string]string{labelSkipMirror: "true"} },
		"is an election": func(e *Endpoints) { e.Annotations = map[string]string{annotationLeader: "{}"} },
	} {
		e := *ep
		edit(&e)
		if ch := Mirror(svc, &e, c.list()); len(ch.Delete) != 3 || len(ch.Update)+len(ch.Create) != 0 {
			t.Errorf("Endpoints that %s: %+v", name, ch)
		}
	}
	if ch := Mirror(cart(), ep, c.list()); len(ch.Delete) != 3 {
		t.Errorf("a Service that has a selector now has no mirrored slices: %+v", ch)
	}
}
