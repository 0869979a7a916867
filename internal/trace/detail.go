package trace

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// detail is one line on what the step does.
func (x *Index) detail(st *Step) string {
	if st.Detail != "" {
		return st.Detail
	}
	if st.Err != nil {
		return "not known: " + reason(st.Err)
	}
	v := st.Verdict
	if st.Programmed != nil && st.State == Broken && v.Good() && !st.Programmed.Good() {
		v = *st.Programmed
	}
	switch st.Hop {
	case HopName:
		return nameDetail(st, v)
	case HopAnnounce:
		if v.Good() && v.Node != "" {
			return fmt.Sprintf("%s is answered for by node %s", st.Flow.Dst.Addr(), v.Node)
		}
	case HopProxy:
		return x.serviceDetail(st, v)
	case HopIngress:
		return ingressDetail(st, v)
	case HopPodnet:
		return x.networkDetail(st, v)
	case HopProcess:
		return fmt.Sprintf("%s %s", st.Flow.Dst, v.Why)
	}
	return why(fmt.Sprintf("%s: %s", st.Flow.Dst, v), v)
}

func why(s string, v flow.Verdict) string {
	if v.Why != "" {
		s += ": " + v.Why
	}
	return s
}

func nameDetail(st *Step, v flow.Verdict) string {
	q := st.Flow.DNS
	switch {
	case q == nil:
		return v.String()
	case v.Action != flow.Answer:
		return q.Name + " is not a name of the cluster: asked elsewhere"
	case len(v.Records) == 0:
		return fmt.Sprintf("%s %s: %s", q.Name, q.Type, v.Rcode)
	}
	s := q.Name
	if abs := strings.TrimSuffix(v.Name, "."); abs != "" && abs != q.Name {
		s += " -> " + abs
	}
	return s + " -> " + list(v.Records, 4)
}

func list(all []string, most int) string {
	if len(all) <= most {
		return strings.Join(all, ", ")
	}
	return strings.Join(all[:most], ", ") + fmt.Sprintf(" and %d more", len(all)-most)
}

func (x *Index) serviceDetail(st *Step, v flow.Verdict) string {
	svc, port := x.service(st.Flow.Dst, st.Flow.Proto)
	if svc == nil {
		if v.Action == flow.Pass {
			return st.Flow.Dst.String() + " is no Service's address"
		}
		return why(fmt.Sprintf("%s: %s", st.Flow.Dst, v), v)
	}
	s := "Service " + svc.Name.String()
	if port != nil {
		s += fmt.Sprintf(" %d/%s", port.Port, port.Protocol)
	}
	switch v.Action {
	case flow.Forward:
		s += " -> " + targetsText(v.Targets)
		if v.Masquerade {
			s += " (from the node's address)"
		}
		if v.AtSocket {
			s += " (the sender's socket is connected to it)"
		}
		if v.Sticky {
			s += " (the same client keeps its target)"
		}
		return s
	case flow.Pass:
		return s + ": passed on"
	}
	if port == nil {
		return s + ": " + string(v.Action) + fmt.Sprintf(", it has no port %d/%s", st.Flow.Dst.Port(), st.Flow.Proto)
	}
	return s + ": " + string(v.Action) + ", " + x.backendText(svc, port, st.Flow.Dst.Addr().Is4())
}

// backendText counts what stands behind the Service.
func (x *Index) backendText(svc *model.Service, port *model.ServicePort, is4 bool) string {
	usable := len(x.ready(svc, port, is4))
	if len(svc.Selector) == 0 {
		return fmt.Sprintf("no selector, %d usable", usable)
	}
	pods, ready := x.selected(svc), 0
	if len(pods) == 0 {
		return "no Pod matches"
	}
	for _, p := range pods {
		if p.Ready {
			ready++
		}
	}
	return fmt.Sprintf("%s, %d ready, %d usable", count(len(pods), "Pod matches", "Pods match"), ready, usable)
}

func targetsText(t []netip.AddrPort) string {
	var out []string
	for _, a := range t {
		out = append(out, a.String())
	}
	return list(out, 4)
}

func ingressDetail(st *Step, v flow.Verdict) string {
	s := ""
	if r := st.Flow.HTTP; r != nil {
		s = r.Scheme + "://" + r.Host + r.Path
	}
	switch {
	case v.Action == flow.Forward:
		if st.Service.Name != "" {
			s += " -> Service " + st.Service.String()
		}
		return s + " -> " + targetsText(v.Targets)
	case v.Status != 0:
		return why(fmt.Sprintf("%s: HTTP %d", s, v.Status), v)
	}
	return why(s+": "+string(v.Action), v)
}

func (x *Index) networkDetail(st *Step, v flow.Verdict) string {
	to := v.Node
	if to == "" {
		if p := x.pod(st.Flow.Dst, st.Service); p != nil {
			to = p.Node
		}
	}
	s := fmt.Sprintf("node %s", st.Node)
	switch {
	case to == "" || to == st.Node && len(st.Pods) == 0:
		s += " -> " + st.Flow.Dst.Addr().String()
	case to == st.Node:
		s += " -> its Pod " + st.Flow.Dst.Addr().String()
	default:
		s += " -> node " + to
	}
	if v.Device != "" {
		s += " by " + v.Device
	}
	if v.Via.IsValid() {
		s += " via " + v.Via.String()
	}
	if !v.Good() {
		s += ": " + string(v.Action)
	}
	return s
}
