package trace

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// explainBackends says why the Service has no usable endpoint for the port. It is nil when it ought to have one.
func (x *Index) explainBackends(svc *model.Service, port *model.ServicePort) *flow.Finding {
	if len(svc.Selector) == 0 {
		return x.explainNoSelector(svc)
	}
	pods := x.selected(svc)
	alive := slices.DeleteFunc(slices.Clone(pods), func(p *model.Pod) bool { return p.Deleting })
	if len(alive) == 0 && (len(pods) == 0 || x.unwanted(svc)) {
		return x.explainNoPods(svc)
	}
	if len(alive) > 0 {
		pods = alive
	}
	var ready []*model.Pod
	for _, p := range pods {
		if (p.Ready || svc.PublishNotReady) && !p.Deleting && len(p.Addrs) > 0 {
			ready = append(ready, p)
		}
	}
	if len(ready) == 0 {
		return x.explainNotReady(svc, pods)
	}
	if port == nil {
		return nil
	}
	if f := noPortName(svc, port, ready); f != nil {
		return f
	}
	if f := x.podsGone(svc); f != nil {
		return f
	}
	f := finding(flow.SlicesStale, serviceObject(svc), fmt.Sprintf("%d Pods match and are ready, and no EndpointSlice lists them for port %d", len(ready), port.Port),
		"kubectl -n kube-system logs deploy/podway-controller (or see that the kube-controller-manager runs)",
		"declared ready: "+podNames(ready), fmt.Sprintf("declared slices: %s", x.sliceNames(svc)))
	f.Evidence = append(f.Evidence, x.controllers()...)
	return &f
}

// controllers says how podway's controller is, which writes EndpointSlices and gives addresses.
func (x *Index) controllers() []string {
	var out []string
	for _, p := range model.Sorted(x.s.Pods, func(a, b *model.Pod) int { return a.Name.Compare(b.Name) }) {
		if isPodway(p, "podway-controller") && !p.Terminal() && !p.Ready {
			out = append(out, "declared "+podText(p))
		}
	}
	return out
}

// podsGone is for slices whose every endpoint names a Pod that does not exist.
func (x *Index) podsGone(svc *model.Service) *flow.Finding {
	var gone *flow.Finding
	x.s.Backends(svc.Name).Each(func(_ *model.EndpointSlice, e *model.Endpoint) {
		if gone == nil && e.Pod.Name != "" && x.s.Pods.At(e.Pod) == nil {
			f := podGone(e, svc.Name)
			gone = &f
		}
	})
	return gone
}

func (x *Index) sliceNames(svc *model.Service) string {
	b := x.s.Backends(svc.Name)
	if b == nil {
		return "none"
	}
	var out []string
	for _, sl := range b.Slices {
		out = append(out, fmt.Sprintf("%s (%d endpoints)", sl.Name.Name, len(sl.Endpoints)))
	}
	return strings.Join(out, ", ")
}

func (x *Index) explainNoSelector(svc *model.Service) *flow.Finding {
	object := serviceObject(svc)
	if x.s.Backends(svc.Name) == nil {
		f := finding(flow.NoSelectorNoSlices, object, "it has no selector, and nobody has written an EndpointSlice for it",
			"add spec.selector, or an EndpointSlice with the label kubernetes.io/service-name: "+svc.Name.Name)
		return &f
	}
	f := finding(flow.PodsNotReady, object, "it has no selector, and its EndpointSlices list no endpoint that is ready for this port",
		"kubectl get endpointslices -n "+svc.Name.Namespace+" -l kubernetes.io/service-name="+svc.Name.Name, "declared slices: "+x.sliceNames(svc))
	return &f
}

func (x *Index) explainNoPods(svc *model.Service) *flow.Finding {
	object := serviceObject(svc)
	for _, w := range x.workloads(svc.Name.Namespace) {
		if !model.Selects(svc.Selector, w.Labels) {
			continue
		}
		what := w.Kind + " " + w.Name.String()
		if w.Replicas == 0 {
			f := finding(flow.ScaledToZero, what, what+" would match the selector, and zero replicas are wanted",
				fmt.Sprintf("kubectl scale -n %s %s/%s --replicas=1", w.Name.Namespace, strings.ToLower(w.Kind), w.Name.Name), "declared selector of "+object+": "+labelText(svc.Selector))
			return &f
		}
		f := finding(flow.SelectorNoPod, what, fmt.Sprintf("%s would match the selector of %s, and it has made no Pod", what, object),
			fmt.Sprintf("kubectl describe -n %s %s/%s", w.Name.Namespace, strings.ToLower(w.Kind), w.Name.Name))
		return &f
	}
	f := finding(flow.SelectorNoPod, object, "the selector "+labelText(svc.Selector)+" matches no Pod in namespace "+svc.Name.Namespace,
		"kubectl get pods -n "+svc.Name.Namespace+" --show-labels: change spec.selector of "+object)
	if near := x.nearest(svc); near != nil {
		f.Cause = fmt.Sprintf("%s; %s has %s", f.Cause, near.what, near.has)
		f.Fix = diff(object+" spec.selector", near.want, near.has)
		f.Evidence = append(f.Evidence, fmt.Sprintf("declared nearest: %s, the only label that differs: %s != %s", near.what, near.has, near.want))
	} else if other := x.elsewhere(svc); other != "" {
		f.Cause += "; the Pods that match are in namespace " + other + ", and a Service selects only in its own"
		f.Fix = "move the Service to namespace " + other
	}
	return &f
}

// unwanted reports whether the workload of the Service's Pods wants none any more.
func (x *Index) unwanted(svc *model.Service) bool {
	return slices.ContainsFunc(x.workloads(svc.Name.Namespace), func(w *model.Workload) bool {
		return w.Replicas == 0 && model.Selects(svc.Selector, w.Labels)
	})
}

func (x *Index) workloads(namespace string) []*model.Workload {
	var out []*model.Workload
	for w := range x.s.Workloads.Values() {
		if w.Name.Namespace == namespace {
			out = append(out, w)
		}
	}
	slices.SortFunc(out, func(a, b *model.Workload) int {
		return strings.Compare(a.Kind+a.Name.Name, b.Kind+b.Name.Name)
	})
	return out
}

// elsewhere is another namespace where Pods match the selector.
func (x *Index) elsewhere(svc *model.Service) string {
	best := ""
	for p := range x.s.Pods.Values() {
		if ns := p.Name.Namespace; ns != svc.Name.Namespace && !p.Terminal() && model.Selects(svc.Selector, p.Labels) && (best == "" || ns < best) {
			best = ns
		}
	}
	return best
}

// noPortName is for a named targetPort that no Pod declares.
func noPortName(svc *model.Service, port *model.ServicePort, pods []*model.Pod) *flow.Finding {
	if port.TargetPort.Name == "" {
		return nil
	}
	names := map[string]bool{}
	for _, p := range pods {
		if _, ok := targetPort(p, port); ok {
			return nil
		}
		for _, c := range p.Ports {
			if c.Protocol == port.Protocol && c.Name != "" {
				names[c.Name] = true
			}
		}
	}
	var has []string
	for n := range names {
		has = append(has, n)
	}
	slices.Sort(has)
	object := serviceObject(svc)
	where := fmt.Sprintf("%s spec.ports[port %d]", object, port.Port)
	f := finding(flow.TargetPortNoName, object, fmt.Sprintf("targetPort is %q, and the Pods have no %s port of this name", port.TargetPort.Name, protoOf(port.Protocol)),
		"name a container port "+port.TargetPort.Name+", or use its number as targetPort", "declared ports of "+pods[0].Name.String()+": "+portText(pods[0]))
	if to := closest(port.TargetPort.Name, has); to != "" {
		f.Fix = diff(where, "targetPort: "+port.TargetPort.Name, "targetPort: "+to)
	} else if len(has) == 1 {
		f.Fix = diff(where, "targetPort: "+port.TargetPort.Name, "targetPort: "+has[0])
	}
	return &f
}

func portText(p *model.Pod) string {
	var out []string
	for _, c := range p.Ports {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%d/%s %s", c.Port, protoOf(c.Protocol), c.Name)))
	}
	if len(out) == 0 {
		return "none declared"
	}
	return strings.Join(out, ", ")
}

func podNames(pods []*model.Pod) string {
	var out []string
	for i, p := range pods {
		if i == 3 {
			out = append(out, fmt.Sprintf("and %d more", len(pods)-i))
			break
		}
		out = append(out, p.Name.String())
	}
	return strings.Join(out, ", ")
}

func labelText(m map[string]string) string {
	var out []string
	for k, v := range m {
		out = append(out, k+"="+v)
	}
	slices.Sort(out)
	return strings.Join(out, ",")
}
