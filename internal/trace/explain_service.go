package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// explainProxy says why the Service proxy does not let the flow through.
func (x *Index) explainProxy(st *Step) *flow.Finding {
	svc, port := x.service(st.Flow.Dst, st.Flow.Proto)
	if svc == nil {
		return x.explainNoService(st)
	}
	f := x.explainService(svc, port, st)
	if ing := x.ingressService(); f != nil && ing != nil && ing.Name == svc.Name && port != nil && backendCode(f.Code) {
		down := finding(flow.IngressDown, serviceObject(svc), "the ingress proxy has no usable Pod: "+f.Cause, f.Fix, f.Evidence...)
		return &down
	}
	return f
}

// backendCode reports whether the code says that a Service has no usable Pod.
func backendCode(c flow.Code) bool { return strings.HasPrefix(string(c), "PW-12") }

// explainNoService is for an address that no Service has.
func (x *Index) explainNoService(st *Step) *flow.Finding {
	dst := st.Flow.Dst
	if n := x.nodes[dst.Addr()]; n != nil {
		f := finding(flow.NoSuchNodePort, "node "+n.Name, fmt.Sprintf("no Service has the node port %d/%s", dst.Port(), st.Flow.Proto), "kubectl get services -A: use one of the node ports")
		for _, svc := range model.Sorted(x.s.Services, func(a, b *model.Service) int { return a.Name.Compare(b.Name) }) {
			for _, p := range svc.Ports {
				if p.NodePort != 0 && len(f.Evidence) < 5 {
					f.Evidence = append(f.Evidence, fmt.Sprintf("declared Service %s has node port %d/%s", svc.Name, p.NodePort, p.Protocol))
				}
			}
		}
		return &f
	}
	f := finding(flow.AddressUnused, "address "+dst.Addr().String(), fmt.Sprintf("no Service has the address %s", dst.Addr()),
		"kubectl get services -A: look the name up again")
	return &f
}

// explainService is for a Service that does not take the flow; port is nil when it has no such port.
func (x *Index) explainService(svc *model.Service, port *model.ServicePort, st *Step) *flow.Finding {
	if port == nil {
		f := noSuchPort(svc, st.Flow.Dst.Port(), st.Flow.Proto)
		return &f
	}
	ready := x.ready(svc, port, st.Flow.Dst.Addr().Is4())
	if len(ready) == 0 {
		return x.explainBackends(svc, port)
	}
	toNodePort := x.nodes[st.Flow.Dst.Addr()] != nil
	external := toNodePort || x.external(st.Flow.Dst.Addr())
	if external && !toNodePort && len(svc.SourceRanges) > 0 && !allowed(svc.SourceRanges, st.Flow.Src.Addr()) {
		return sourceNotAllowed(svc, st.Flow.Src.Addr())
	}
	here := slices.ContainsFunc(ready, func(e *model.Endpoint) bool { return e.Node == st.Node })
	where := "declared ready endpoints are on: " + strings.Join(nodesOf(ready), ", ")
	switch {
	case external && svc.ExternalPolicyLocal && !here:
		f := finding(flow.ExternalLocalNone, serviceObject(svc), fmt.Sprintf("externalTrafficPolicy is Local and node %s has none of the %d ready Pods", st.Node, len(ready)),
			diff(serviceObject(svc)+" spec", "externalTrafficPolicy: Local", "externalTrafficPolicy: Cluster")+"\nor send to "+nodesOf(ready)[0], where)
		return &f
	case !external && svc.InternalPolicyLocal && !here:
		f := finding(flow.InternalLocalNone, serviceObject(svc), fmt.Sprintf("internalTrafficPolicy is Local and the client's node %s has none of the %d ready Pods", st.Node, len(ready)),
			diff(serviceObject(svc)+" spec", "internalTrafficPolicy: Local", "internalTrafficPolicy: Cluster"), where)
		return &f
	}
	return nil
}

func noSuchPort(svc *model.Service, port uint16, proto flow.Proto) flow.Finding {
	var has, same []string
	cause := fmt.Sprintf("Service %s has no port %d/%s", svc.Name, port, proto)
	for _, p := range svc.Ports {
		s := fmt.Sprintf("%d/%s", p.Port, protoOf(p.Protocol))
		if p.Name != "" {
			s += " (" + p.Name + ")"
		}
		has = append(has, s)
		if p.TargetPort.Number == port && p.TargetPort.Name == "" {
			cause += fmt.Sprintf(": that is the Pods' port; the Service's is %d", p.Port)
			same = append(same, fmt.Sprint(p.Port))
		} else if p.Port == port {
			cause += fmt.Sprintf(": it is %s there", protoOf(p.Protocol))
		}
	}
	to := same
	if len(to) == 0 && len(svc.Ports) > 0 {
		to = []string{fmt.Sprint(svc.Ports[0].Port)}
	}
	fix := "add the port to spec.ports of " + serviceObject(svc)
	if len(to) > 0 {
		fix = fmt.Sprintf("use %s:%s", svc.Name.Name+"."+svc.Name.Namespace, to[0])
	}
	return finding(flow.NoSuchServicePort, serviceObject(svc), cause, fix, "declared ports: "+strings.Join(has, ", "))
}

// ready is the endpoints that may take traffic of the port.
func (x *Index) ready(svc *model.Service, port *model.ServicePort, is4 bool) []*model.Endpoint {
	var out []*model.Endpoint
	x.s.Backends(svc.Name).Each(func(sl *model.EndpointSlice, e *model.Endpoint) {
		usable := e.Ready || e.Serving && e.Terminating // KEP-1669: terminating ones serve when no other is left
		if usable && e.Addr.Is4() == is4 && slices.ContainsFunc(sl.Ports, func(p model.EndpointPort) bool {
			return p.Name == port.Name && p.Protocol == port.Protocol && p.Port != 0
		}) {
			out = append(out, e)
		}
	})
	return out
}

func nodesOf(all []*model.Endpoint) []string {
	var out []string
	for _, e := range all {
		out = append(out, e.Node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func allowed(ranges []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(ranges, func(p netip.Prefix) bool { return p.Contains(a) })
}

func sourceNotAllowed(svc *model.Service, client netip.Addr) *flow.Finding {
	var has []string
	for _, p := range svc.SourceRanges {
		has = append(has, p.String())
	}
	who := "the client"
	fix := "add the client's range to spec.loadBalancerSourceRanges of " + serviceObject(svc)
	if client.IsValid() {
		who += " " + client.String()
		fix = fmt.Sprintf("%s spec.loadBalancerSourceRanges:\n+ - %s", serviceObject(svc), netip.PrefixFrom(client, client.BitLen()))
	}
	f := finding(flow.SourceNotAllowed, serviceObject(svc), who+" is in none of loadBalancerSourceRanges", fix, "declared loadBalancerSourceRanges: "+strings.Join(has, ", "))
	return &f
}
