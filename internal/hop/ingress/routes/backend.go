package routes

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// BackendKey names a backend: a port of a Service, spoken to in a protocol.
type BackendKey struct {
	Service  model.Name
	Port     model.PortRef
	Force    Protocol // what the Ingress's annotation wants; "" = what the Service port's appProtocol says
	Resource string   // the backend is no Service but this resource
}

// Protocol is what is spoken to a backend.
type Protocol string

// The protocols of backends. TLS to a backend is not verified: nothing in the Ingress API says against what.
const (
	HTTP1 Protocol = "http"  // HTTP/1.1
	H2C   Protocol = "h2c"   // HTTP/2 without TLS, with prior knowledge; gRPC
	HTTPS Protocol = "https" // HTTP/1.1 over TLS
	H2    Protocol = "h2"    // HTTP/2 over TLS; gRPC over TLS
)

// State says whether a backend can be used.
type State string

// The states of a backend. All but Serving answer 503.
const (
	Serving    State = "serving"
	NoService  State = "no such Service"
	NoPort     State = "no such port"
	NoEndpoint State = "no ready endpoint"
	External   State = "ExternalName"
	Unserved   State = "not a Service"
)

// Backend is where the requests of a route go. It is immutable.
type Backend struct {
	Key       BackendKey
	State     State
	Protocol  Protocol
	Endpoints []netip.AddrPort // sorted
	Draining  bool             // no endpoint is ready; these are still serving while they end
}

// resolve follows Ingress port -> Service port -> EndpointSlice port of the same name.
func resolve(s *model.Snapshot, k BackendKey) *Backend {
	b := &Backend{Key: k, Protocol: k.Force}
	if k.Resource != "" {
		b.State = Unserved
		return b
	}
	svc, ok := s.Services.Get(k.Service)
	if !ok {
		b.State = NoService
		return b
	}
	if svc.Type == model.ExternalName {
		b.State = External
		return b
	}
	port := servicePort(svc, k.Port)
	if port == nil {
		b.State = NoPort
		return b
	}
	if b.Protocol == "" {
		b.Protocol = protocolOf(port.AppProtocol)
	}
	b.State = Serving
	b.Endpoints, b.Draining = endpoints(s, svc, port)
	if len(b.Endpoints) == 0 {
		b.State = NoEndpoint
	}
	return b
}

// servicePort finds the TCP port of a Service by name or number; nil when there is none.
func servicePort(svc *model.Service, ref model.PortRef) *model.ServicePort {
	for i := range svc.Ports {
		p := &svc.Ports[i]
		if p.Protocol != model.TCP && p.Protocol != "" {
			continue
		}
		if ref.Name != "" && p.Name == ref.Name || ref.Name == "" && p.Port == ref.Number {
			return p
		}
	}
	return nil
}

// protocolOf reads appProtocol (KEP-3726 and the IANA names).
func protocolOf(app string) Protocol {
	switch app {
	case "kubernetes.io/h2c", "h2c", "grpc":
		return H2C
	case "https", "kubernetes.io/wss":
		return HTTPS
	}
	return HTTP1
}

// endpoints returns the ready endpoints, or those that still serve while they terminate when none is ready. Of a dual-stack
// Service only the first family that has any is used: the same Pods stand in both.
func endpoints(s *model.Snapshot, svc *model.Service, port *model.ServicePort) ([]netip.AddrPort, bool) {
	var ready, ending [2][]netip.AddrPort // IPv4, IPv6
	s.Backends(svc.Name).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		number, ok := slicePort(sl, port)
		if !ok || !e.Addr.IsValid() {
			return
		}
		family := 0
		if e.Addr.Is6() {
			family = 1
		}
		at := netip.AddrPortFrom(e.Addr, number)
		switch {
		case e.Ready:
			ready[family] = append(ready[family], at)
		case e.Serving && e.Terminating:
			ending[family] = append(ending[family], at)
		}
	})
	first := 0
	if len(svc.IPFamilies) > 0 && svc.IPFamilies[0] == "IPv6" {
		first = 1
	}
	for i, set := range [...][]netip.AddrPort{ready[first], ready[1-first], ending[first], ending[1-first]} {
		if len(set) > 0 {
			return flow.SortTargets(set), i >= 2
		}
	}
	return nil, false
}

// slicePort finds the slice's port of the same name. A slice port without number stands for any: the Service's own target.
func slicePort(sl *model.EndpointSlice, port *model.ServicePort) (uint16, bool) {
	for _, p := range sl.Ports {
		if p.Name != port.Name || p.Protocol != model.TCP && p.Protocol != "" {
			continue
		}
		switch {
		case p.Port != 0:
			return p.Port, true
		case port.TargetPort.Number != 0:
			return port.TargetPort.Number, true
		default:
			return port.Port, true
		}
	}
	return 0, false
}

func (b *Backend) equal(o *Backend) bool {
	return b.Key == o.Key && b.State == o.State && b.Protocol == o.Protocol && b.Draining == o.Draining &&
		slices.Equal(b.Endpoints, o.Endpoints)
}
