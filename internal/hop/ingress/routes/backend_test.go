package routes

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/podway/podway/internal/model"
)

// endpointsOf makes a slice from words: "10.0.0.1 ready", "10.0.0.2 ending" (serving, terminating), "... dead".
func endpointsOf(sl *model.EndpointSlice, words ...string) *model.EndpointSlice {
	for _, w := range words {
		addr, state, _ := strings.Cut(w, " ")
		e := model.Endpoint{Addr: netip.MustParseAddr(addr)}
		switch state {
		case "ready":
			e.Ready, e.Serving = true, true
		case "ending":
			e.Serving, e.Terminating = true, true
		case "unready":
		case "dead":
			e.Terminating = true
		}
		sl.Endpoints = append(sl.Endpoints, e)
	}
	return sl
}

func ports(svc *model.Service, ports ...model.ServicePort) *model.Service {
	svc.Ports = ports
	return svc
}

func named(sl *model.EndpointSlice, suffix string, ports ...model.EndpointPort) *model.EndpointSlice {
	sl.Name.Name += suffix
	sl.Ports = ports
	return sl
}

func TestBackends(t *testing.T) {
	tcp := func(name string, port uint16, target model.PortRef) model.ServicePort {
		return model.ServicePort{Name: name, Protocol: model.TCP, Port: port, TargetPort: target}
	}
	at := func(name string, port uint16) model.EndpointPort {
		return model.EndpointPort{Name: name, Protocol: model.TCP, Port: port}
	}
	number := func(n uint16) model.PortRef { return model.PortRef{Number: n} }
	ofType := func(s *model.Service, typ model.ServiceType) *model.Service { s.Type = typ; return s }
	app := func(s *model.Service, p string) *model.Service { s.Ports[0].AppProtocol = p; return s }
	six := func(s *model.Service, f ...string) *model.Service { s.IPFamilies = f; return s }
	tests := []struct {
		name string
		to   string
		objs []any
		want string
	}{
		{"a port by its name", "a:http", []any{svc("a"), slice("a", "10.0.0.1")}, "serving http 10.0.0.1:8080"},
		{"a port by its number", "a:80", []any{svc("a"), slice("a", "10.0.0.1")}, "serving http 10.0.0.1:8080"},
		{"the Pod's number is not the Service's", "a:8080", []any{svc("a"), slice("a", "10.0.0.1")}, "no such port"},
		{"a name that the Service does not have", "a:web", []any{svc("a"), slice("a", "10.0.0.1")}, "no such port"},
		{"a Service that does not exist", "a:http", nil, "no such Service"},
		{"a Service without slices", "a:http", []any{svc("a")}, "no ready endpoint"},
		{"the slice's port is found by the Service port's name, whatever the numbers", "a:81",
			[]any{ports(svc("a"), tcp("x", 80, number(1)), tcp("y", 81, number(2))), named(slice("a", "10.0.0.1"), "", at("x", 9001), at("y", 9002))},
			"serving http 10.0.0.1:9002"},
		{"a named targetPort may be another number in each slice", "a:80",
			[]any{ports(svc("a"), tcp("", 80, model.PortRef{Name: "web"})), named(slice("a", "10.0.0.1"), "", at("", 1111)), named(slice("a", "10.0.0.2"), "b", at("", 2222))},
			"serving http 10.0.0.1:1111 10.0.0.2:2222"},
		{"a UDP port of the same name is none", "a:dns",
			[]any{ports(svc("a"), model.ServicePort{Name: "dns", Protocol: model.UDP, Port: 53}), slice("a", "10.0.0.1")}, "no such port"},
		{"a slice port without number is the Service's target", "a:http", []any{svc("a"), named(slice("a", "10.0.0.1"), "", at("http", 0))}, "serving http 10.0.0.1:8080"},
		{"endpoints that are not ready get nothing", "a:http", []any{svc("a"), endpointsOf(slice("a"), "10.0.0.1 ready", "10.0.0.2 unready", "10.0.0.3 ending", "10.0.0.4 dead")}, "serving http 10.0.0.1:8080"},
		{"when none is ready, those serve that are ending", "a:http", []any{svc("a"), endpointsOf(slice("a"), "10.0.0.2 unready", "10.0.0.3 ending", "10.0.0.4 dead")}, "serving http ending 10.0.0.3:8080"},
		{"an address listed twice is one endpoint", "a:http", []any{svc("a"), slice("a", "10.0.0.1"), named(slice("a", "10.0.0.1"), "b", at("http", 8080))}, "serving http 10.0.0.1:8080"},
		{"a headless Service is as good as any", "a:http", []any{func() *model.Service { s := svc("a"); s.Headless = true; return s }(), slice("a", "10.0.0.1")}, "serving http 10.0.0.1:8080"},
		{"ExternalName is refused, also with slices", "a:http", []any{ofType(svc("a"), model.ExternalName), slice("a", "10.0.0.1")}, "ExternalName"},
		{"of two families the Service's first one counts", "a:http",
			[]any{six(svc("a"), "IPv6", "IPv4"), slice("a", "10.0.0.1"), named(slice("a", "fd00::1"), "6", at("http", 8080))}, "serving http [fd00::1]:8080"},
		{"and the other one when the first has nothing ready", "a:http",
			[]any{six(svc("a"), "IPv6", "IPv4"), slice("a", "10.0.0.1"), named(endpointsOf(slice("a"), "fd00::1 ending"), "6", at("http", 8080))}, "serving http 10.0.0.1:8080"},
		{"appProtocol kubernetes.io/h2c", "a:http", []any{app(svc("a"), "kubernetes.io/h2c"), slice("a", "10.0.0.1")}, "serving h2c 10.0.0.1:8080"},
		{"appProtocol kubernetes.io/ws is HTTP/1", "a:http", []any{app(svc("a"), "kubernetes.io/ws"), slice("a", "10.0.0.1")}, "serving http 10.0.0.1:8080"},
		{"appProtocol kubernetes.io/wss is TLS", "a:http", []any{app(svc("a"), "kubernetes.io/wss"), slice("a", "10.0.0.1")}, "serving https 10.0.0.1:8080"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tab := Build(Config{}, cluster(append(tt.objs, ing("x", "h / Prefix "+tt.to))...))
			m, _, err := tab.Resolve("h", "/")
			if err != nil || m.Backend == nil {
				t.Fatal(m, err)
			}
			got := string(m.Backend.State)
			if m.Backend.State == Serving {
				got += " " + string(m.Backend.Protocol)
			}
			if m.Backend.Draining {
				got += " ending"
			}
			for _, e := range m.Backend.Endpoints {
				got += fmt.Sprint(" ", e)
			}
			if got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}

func TestTheAnnotationForcesTheProtocolOfOneIngressOnly(t *testing.T) {
	annotated := func(i *model.Ingress, k, v string) *model.Ingress {
		i.Annotations = map[string]string{k: v}
		return i
	}
	tab := Build(Config{}, cluster(svc("a"), slice("a", "10.0.0.1"),
		annotated(ing("grpc", "grpc / Prefix a:http"), nginxProtocolAnnotation, "GRPC"),
		annotated(ing("https", "https / Prefix a:http"), protocolAnnotation, "https"),
		annotated(ing("odd", "odd / Prefix a:http"), protocolAnnotation, "FCGI"),
		ing("plain", "plain / Prefix a:http")))
	for host, want := range map[string]Protocol{"grpc": H2C, "https": HTTPS, "odd": HTTP1, "plain": HTTP1} {
		if m, _, _ := tab.Resolve(host, "/"); m.Backend.Protocol != want {
			t.Errorf("%s: got %s, want %s", host, m.Backend.Protocol, want)
		}
	}
}

func TestAServiceThatBecomesExternalNameIsNotServedAnyMore(t *testing.T) {
	b := model.NewBuilder(cluster(svc("a"), slice("a", "10.0.0.1"), ing("x", "h / Prefix a:http")))
	one := b.Snapshot(epoch)
	tab := Build(Config{}, one)
	external := svc("a")
	external.Type, external.ExternalName = model.ExternalName, "metadata.internal"
	b.Put(external)
	two := b.Snapshot(epoch)
	tab = tab.Update(two, model.Diff(one, two))
	if got := goes(t, tab, "h", "/"); got != string(External) {
		t.Errorf("ExternalName: %s", got)
	}
	b.Put(svc("a"))
	three := b.Snapshot(epoch)
	if got := goes(t, tab.Update(three, model.Diff(two, three)), "h", "/"); got != "a" {
		t.Errorf("back to ClusterIP: %s", got)
	}
}
