package routes

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/podway/podway/internal/model"
)

var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// cluster builds a snapshot of the objects, with the class podway.
func cluster(objs ...any) *model.Snapshot {
	b := model.NewBuilder(nil)
	b.Put(&model.IngressClass{Name: "podway", Controller: DefaultController})
	for _, o := range objs {
		b.Put(o)
	}
	return b.Snapshot(epoch)
}

// ing is an Ingress of namespace shop and class podway; rules are "host path type service:port".
func ing(name string, rules ...string) *model.Ingress {
	out := &model.Ingress{Name: model.N("shop", name), Class: "podway", Created: epoch}
	for _, r := range rules {
		f := strings.Fields(r)
		host, path, typ, to := f[0], f[1], f[2], f[3]
		if host == "-" {
			host = ""
		}
		out.Rules = append(out.Rules, model.IngressRule{Host: host, Paths: []model.IngressPath{
			{Path: path, Type: model.PathType(typ), Backend: backendOf(to)}}})
	}
	return out
}

func backendOf(s string) model.IngressBackend {
	name, port, _ := strings.Cut(s, ":")
	ref := model.PortRef{Name: port}
	if port != "" && port[0] >= '0' && port[0] <= '9' {
		ref = model.PortRef{Number: netip.MustParseAddrPort("0.0.0.0:" + port).Port()}
	}
	return model.IngressBackend{Service: name, Port: ref}
}

func younger(i *model.Ingress, by time.Duration) *model.Ingress {
	i.Created = i.Created.Add(by)
	return i
}

// svc is a Service of namespace shop with the port http 80 -> 8080.
func svc(name string) *model.Service {
	return &model.Service{Name: model.N("shop", name), Type: model.ClusterIP, Ports: []model.ServicePort{
		{Name: "http", Protocol: model.TCP, Port: 80, TargetPort: model.PortRef{Number: 8080}}}}
}

// slice has ready endpoints for the port http.
func slice(service string, addrs ...string) *model.EndpointSlice {
	sl := &model.EndpointSlice{Name: model.N("shop", service+"-1"), Service: model.N("shop", service), AddressType: "IPv4",
		Ports: []model.EndpointPort{{Name: "http", Protocol: model.TCP, Port: 8080}}}
	for _, a := range addrs {
		sl.Endpoints = append(sl.Endpoints, model.Endpoint{Addr: netip.MustParseAddr(a), Ready: true, Serving: true})
	}
	return sl
}

// goes is the Service that answers, or "400", "404", or the state that makes it a 503.
func goes(t *testing.T, tab *Table, host, path string) string {
	t.Helper()
	h, ok := Host(host)
	if !ok {
		return "400"
	}
	m, _, err := tab.Resolve(h, path)
	switch {
	case err != nil:
		return "400"
	case m.Route == nil:
		return "404"
	case m.Backend == nil:
		t.Fatalf("route %+v has no backend in the table", m.Route)
	case m.Backend.State != Serving:
		return string(m.Backend.State)
	}
	return m.Backend.Key.Service.Name
}
