package status

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/hop/ingress/routes"
	"github.com/podway/podway/internal/model"
)

// Config says which Ingresses are podway's and by which Service clients come in.
type Config struct {
	Controller string     // spec.controller of the IngressClasses served
	Class      string     // value of the legacy annotation that needs no IngressClass
	Service    model.Name // in front of the ingress proxy
}

// DefaultConfig is what podway's own manifests use.
var DefaultConfig = Config{Controller: routes.DefaultController, Class: routes.DefaultClass, Service: model.N("kube-system", "podway-ingress")}

// Desired returns the addresses of each Ingress that must change. It is empty while no address is known.
func Desired(s *model.Snapshot, c Config) map[model.Name][]string {
	addrs := Addresses(s, c.Service)
	if len(addrs) == 0 {
		return nil
	}
	out := map[model.Name][]string{}
	for ing := range s.Ingresses.Values() {
		if c.serves(s, ing) && !slices.Equal(ing.Addresses, addrs) {
			out[ing.Name] = addrs
		}
	}
	return out
}

// Addresses is where clients reach the ingress proxy: the Service's LoadBalancer addresses, else its external addresses;
// for a Service of another type than LoadBalancer, which hosts or node ports serve, the addresses of the Nodes with a
// ready endpoint, external ones if they have any. A Service whose LoadBalancer address is pending has none.
func Addresses(s *model.Snapshot, service model.Name) (out []string) {
	svc := s.Services.At(service)
	if svc == nil {
		return nil
	}
	for _, ip := range svc.LoadBalancerIPs {
		out = append(out, ip.Addr.String())
	}
	for _, a := range svc.ExternalIPs {
		out = append(out, a.String())
	}
	if len(out) > 0 || svc.Type == model.LoadBalancer {
		return out
	}
	return nodeAddresses(s, svc)
}

func nodeAddresses(s *model.Snapshot, svc *model.Service) (out []string) {
	names := map[string]bool{}
	s.Backends(svc.Name).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		names[e.Node] = names[e.Node] || e.Ready
	})
	for _, n := range model.Sorted(s.Nodes, func(a, b *model.Node) int { return strings.Compare(a.Name, b.Name) }) {
		if !n.Ready || !names[n.Name] {
			continue
		}
		for _, f := range svc.IPFamilies {
			if a := best(n, f == "IPv4"); a.IsValid() {
				out = append(out, a.String())
			}
		}
	}
	return out
}

// best is the node's last address of the family that is not private, else its first.
func best(n *model.Node, is4 bool) netip.Addr {
	for _, a := range slices.Backward(n.Addrs) { // external addresses stand last
		if a.Is4() == is4 && !a.IsPrivate() && !a.IsLinkLocalUnicast() {
			return a
		}
	}
	return n.Addr(is4)
}

// serves reports whether the Ingress is podway's, as the ingress proxy itself sees it.
func (c Config) serves(s *model.Snapshot, ing *model.Ingress) bool {
	return routes.Config{Controller: c.Controller, Class: c.Class}.Standing(s, ing) == routes.Served
}
