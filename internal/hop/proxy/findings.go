package proxy

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// finding fills in what the table of codes knows.
func finding(c flow.Code, object, cause string, evidence ...string) flow.Finding {
	about, _ := flow.CauseOf(c)
	return flow.Finding{Code: c, Severity: flow.Error, Object: object, Cause: cause, Evidence: evidence, Fix: about.Fix}
}

func noSuchPort(s *Service, f flow.Flow) flow.Finding {
	var has []string
	for _, p := range s.Ports {
		if p.ClusterIP.Addr() == f.Dst.Addr() {
			has = append(has, fmt.Sprintf("%s/%d", p.Proto, p.ClusterIP.Port()))
		}
	}
	return finding(flow.NoSuchServicePort, "Service "+s.Name.String(),
		fmt.Sprintf("Service %s has no port %s/%d; it has %s.", s.Name, f.Proto, f.Dst.Port(), strings.Join(has, ", ")))
}

// findings say why a port does not forward, most likely cause first.
func (p *Port) findings(s *model.Snapshot, v flow.Verdict, f flow.Flow, node string) []flow.Finding {
	object := "Service " + p.Service.String()
	switch {
	case v.Action == flow.Refused:
		return []flow.Finding{p.whyEmpty(s)}
	case strings.HasPrefix(p.localPolicy(f), "internal"):
		return []flow.Finding{finding(flow.InternalLocalNone, object, fmt.Sprintf("internalTrafficPolicy of %s is Local and no endpoint is on node %s.", object, node))}
	case strings.HasPrefix(p.localPolicy(f), "external") && !p.guards(f):
		return []flow.Finding{finding(flow.ExternalLocalNone, object, fmt.Sprintf("externalTrafficPolicy of %s is Local and no endpoint is on node %s.", object, node))}
	}
	return []flow.Finding{finding(flow.SourceNotAllowed, object, fmt.Sprintf("%s is not in loadBalancerSourceRanges of %s.", f.Src.Addr(), object))}
}

// localPolicy names the policy that decides about a flow to one of the port's frontends.
func (p *Port) localPolicy(f flow.Flow) string {
	if f.Dst == p.ClusterIP {
		return "internalTrafficPolicy"
	}
	return "externalTrafficPolicy"
}

// guards reports whether the frontend's source ranges keep the flow out.
func (p *Port) guards(f flow.Flow) bool {
	for _, x := range p.External {
		if x.Addr == f.Dst && x.Guarded && !in(x.Sources, f.Src.Addr()) {
			return true
		}
	}
	return false
}

// whyEmpty looks for the reason why no endpoint of the port is ready.
func (p *Port) whyEmpty(s *model.Snapshot) flow.Finding {
	object := "Service " + p.Service.String()
	svc, b := s.Services.At(p.Service), s.Backends(p.Service)
	if svc == nil {
		return finding(flow.PodsNotReady, object, object+" has no ready endpoint.")
	}
	if svc.Selector == nil {
		if b == nil {
			return finding(flow.NoSelectorNoSlices, object, object+" has no selector, and nobody wrote an EndpointSlice for it.")
		}
		return finding(flow.PodsNotReady, object, "No endpoint in the EndpointSlices of "+object+" is ready.")
	}
	pods := matching(s, p.Service.Namespace, svc.Selector)
	if len(pods) == 0 {
		return p.nothingMatches(s, svc, object)
	}
	return p.podsButNoEndpoint(svc, pods, object)
}

func (p *Port) nothingMatches(s *model.Snapshot, svc *model.Service, object string) flow.Finding {
	for w := range s.Workloads.Values() {
		if w.Name.Namespace == svc.Name.Namespace && w.Replicas == 0 && selects(svc.Selector, w.Labels) {
			return finding(flow.ScaledToZero, object, fmt.Sprintf("%s %s, which %s selects, has no replicas.", w.Kind, w.Name, object))
		}
	}
	if s.Pods.Len() == 0 && s.Backends(svc.Name) != nil { // this snapshot carries no Pods: judge by the slices
		return finding(flow.PodsNotReady, object, "No endpoint in the EndpointSlices of "+object+" is ready.")
	}
	return finding(flow.SelectorNoPod, object, fmt.Sprintf("No Pod in namespace %s has the labels %s.", svc.Name.Namespace, labels(svc.Selector)))
}

func (p *Port) podsButNoEndpoint(svc *model.Service, pods []*model.Pod, object string) flow.Finding {
	var evidence []string
	ready := 0
	for _, pod := range pods {
		if pod.Ready && !pod.Deleting {
			ready++
			continue
		}
		evidence = append(evidence, fmt.Sprintf("Pod %s: %s", pod.Name, problem(pod)))
	}
	if ready == 0 {
		slices.Sort(evidence)
		return finding(flow.PodsNotReady, object, fmt.Sprintf("%d Pods match the selector of %s and none is ready.", len(pods), object), evidence...)
	}
	for i := range svc.Ports {
		if sp := &svc.Ports[i]; sp.Name == p.Name && protoOf(sp.Protocol) == p.Proto && sp.TargetPort.Name != "" && !offers(pods, sp.TargetPort.Name) {
			return finding(flow.TargetPortNoName, object, fmt.Sprintf("targetPort of %s is %q, and no container port of its Pods has this name.", object, sp.TargetPort.Name))
		}
	}
	return finding(flow.SlicesStale, object, fmt.Sprintf("%d ready Pods match the selector of %s, and its EndpointSlices list none of them.", ready, object))
}

func problem(p *model.Pod) string {
	switch {
	case p.Deleting:
		return "is being deleted"
	case p.Problem != "":
		return p.Problem
	}
	return "not ready"
}

func offers(pods []*model.Pod, port string) bool {
	for _, p := range pods {
		if slices.ContainsFunc(p.Ports, func(c model.ContainerPort) bool { return c.Name == port }) {
			return true
		}
	}
	return false
}

func matching(s *model.Snapshot, namespace string, selector map[string]string) []*model.Pod {
	var out []*model.Pod
	for p := range s.Pods.Values() {
		if p.Name.Namespace == namespace && !p.Terminal() && selects(selector, p.Labels) {
			out = append(out, p)
		}
	}
	return out
}

func selects(selector, labels map[string]string) bool {
	for k, v := range selector {
		if labels[k] != v {
			return false
		}
	}
	return len(selector) > 0
}

func labels(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}

// shadowed are the findings about frontends that two Services claim.
func (s *Service) shadowed() []flow.Finding {
	var out []flow.Finding
	for _, x := range s.Shadowed {
		if x.Owner != s.Name {
			out = append(out, finding(flow.FrontendTaken, "Service "+s.Name.String(),
				fmt.Sprintf("%s %s of Service %s is used by Service %s, which keeps it.", x.Frontend.Kind, x.Frontend.Addr, s.Name, x.Owner)))
		}
	}
	return out
}
