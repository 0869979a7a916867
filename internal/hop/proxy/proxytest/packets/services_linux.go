package packets

import (
	"net/netip"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// The addresses of the Service shop/web, and the client outside.
var (
	VIP4, VIP6 = netip.MustParseAddrPort("10.96.0.7:80"), netip.MustParseAddrPort("[fd00:96::7]:80")
	LB4        = netip.MustParseAddrPort("198.51.100.7:80")
	Client4    = netip.MustParseAddr("203.0.113.9")
	Client6    = netip.MustParseAddr("fd00:203::9")
)

const nodePort = 30080

// Service is shop/web, port 80 of every transport, with a NodePort.
func (l *Lab) Service(edit ...func(*model.Service)) *model.Service {
	s := &model.Service{Name: model.N("shop", "web"), Type: model.NodePort, ClusterIPs: []netip.Addr{VIP4.Addr(), VIP6.Addr()}}
	for _, p := range l.subject.Protos {
		s.Ports = append(s.Ports, model.ServicePort{Name: string(p), Protocol: protocol(p), Port: 80, NodePort: nodePort})
	}
	for _, f := range edit {
		f(s)
	}
	return s
}

func protocol(p flow.Proto) model.Protocol { return model.Protocol(strings.ToUpper(string(p))) }

// LoadBalancer gives the Service the address LB4.
func LoadBalancer(s *model.Service) {
	s.Type = model.LoadBalancer
	s.LoadBalancerIPs = []model.LoadBalancerIP{{Addr: LB4.Addr()}}
}

// Local is externalTrafficPolicy: Local.
func Local(s *model.Service) { s.ExternalPolicyLocal = true }

// InternalLocal is internalTrafficPolicy: Local.
func InternalLocal(s *model.Service) { s.InternalPolicyLocal = true }

// Keeps is sessionAffinity: ClientIP, for a minute.
func Keeps(s *model.Service) { s.AffinityTimeout = time.Minute }

// Ranges lets only some clients in.
func Ranges(s *model.Service) {
	s.SourceRanges = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/28")}
}

// Slices are the slices of both families of shop/web, with the Pods as ready endpoints.
func (l *Lab) Slices(pods ...string) []any {
	var out []any
	for i, typ := range []string{"IPv4", "IPv6"} {
		s := &model.EndpointSlice{Name: model.N("shop", "web-"+typ), Service: model.N("shop", "web"), AddressType: typ}
		for _, p := range l.subject.Protos {
			s.Ports = append(s.Ports, model.EndpointPort{Name: string(p), Protocol: protocol(p), Port: 8080})
		}
		for _, p := range pods {
			s.Endpoints = append(s.Endpoints, model.Endpoint{Addr: netip.MustParseAddr(PodAddrs[p][i]), Ready: true, Serving: true, Node: "node-" + p[:1]})
		}
		out = append(out, s)
	}
	return out
}
