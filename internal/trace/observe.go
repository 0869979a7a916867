package trace

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace/sockets"
)

// judgeSockets compares what the Pods listen on with the ports that the Service sends to.
func (c *comparer) judgeSockets() {
	asked, bad := 0, 0
	for i := range c.p.Steps {
		if c.ports[i] != nil {
			asked++
			if how, _ := c.ports[i].On(string(c.p.Steps[i].Flow.Proto), c.p.Steps[i].Flow.Dst); how != sockets.Reached {
				bad++
			}
		}
	}
	for i := range c.p.Steps {
		if c.ports[i] != nil {
			c.judgeProcess(&c.p.Steps[i], c.ports[i], fmt.Sprintf("%d of %d Pods", bad, asked))
		}
	}
}

func (c *comparer) judgeProcess(st *Step, r *sockets.Report, share string) {
	if st.Flow.Proto == flow.SCTP {
		st.Unasked = "SCTP sockets are not listed in /proc"
		return
	}
	object := "node " + st.Node
	if len(st.Pods) > 0 {
		object = "Pod " + st.Pods[0].String()
	} else {
		share = ""
	}
	f, seen := c.Listening(Listener{Object: object, Service: st.Service, Dst: st.Flow.Dst, Proto: st.Flow.Proto, Share: share}, *r)
	st.Observed = append(st.Observed, seen)
	if st.Seen = f == nil; f != nil {
		st.Findings = append([]flow.Finding{*f}, st.Findings...)
	}
}

// Listener is who should listen, and where.
type Listener struct {
	Object  string     // "Pod shop/cart-1", "node n1"
	Service model.Name // that sends there, or zero
	Dst     netip.AddrPort
	Proto   flow.Proto // tcp or udp
	Share   string     // "1 of 2 Pods", "" = there is one
}

// Listening compares what a Pod or a node listens on with what is sent there; seen says it in words. The finding is nil when
// it fits.
func (x *Index) Listening(l Listener, r sockets.Report) (_ *flow.Finding, seen string) {
	proto := string(l.Proto)
	how, on := r.On(proto, l.Dst)
	port, share := fmt.Sprintf("%d/%s", l.Dst.Port(), proto), ""
	if l.Share != "" {
		share = " (" + l.Share + ")"
	}
	f := flow.Finding{Code: flow.NothingListens, Severity: flow.Error, Object: l.Object}
	switch how {
	case sockets.Reached:
		return nil, "listens on " + listenerText(on)
	case sockets.Loopback:
		f.Code = flow.ListensOnLoopback
		f.Cause = fmt.Sprintf("the process in %s listens on port %s of the loopback address only%s", l.Object, port, share)
		f.Fix = "make the process listen on " + all(l.Dst) + " instead of " + on[0].Addr.Addr().String()
	case sockets.Family:
		f.Cause = fmt.Sprintf("the process in %s listens on port %s of the other address family only%s", l.Object, port, share)
		f.Fix = "make the process listen on " + all(l.Dst) + " as well"
	default:
		f.Cause = fmt.Sprintf("nothing listens on port %s in %s%s", port, l.Object, share)
		f.Fix = x.portFix(l, r)
		if n := x.nodes[l.Dst.Addr()]; n != nil && "node "+n.Name == l.Object {
			f.Cause = fmt.Sprintf("no Service has the node port %s, no Pod of node %s has it as a hostPort, and nothing listens on it there", port, n.Name)
			f.Code = flow.NoSuchNodePort
		}
	}
	seen = "nothing listens on " + port
	if len(on) > 0 {
		seen = "only " + listenerText(on)
	} else if others := x.others(r, proto); len(others) > 0 && strings.HasPrefix(l.Object, "Pod ") {
		seen += "; the Pod listens on " + listenerText(others)
	}
	f.Evidence = []string{"declared " + l.Dst.String(), "observed " + seen}
	return &f, seen
}

func all(dst netip.AddrPort) string {
	if dst.Addr().Is4() {
		return "0.0.0.0"
	}
	return "::"
}

// others is the sockets that anybody can reach.
func (x *Index) others(r sockets.Report, proto string) []sockets.Listener {
	var out []sockets.Listener
	for _, l := range r.Listeners {
		if l.Proto == proto && !l.Addr.Addr().IsLoopback() {
			out = append(out, l)
		}
	}
	return out
}

// portFix proposes the one other port that the Pod listens on.
func (x *Index) portFix(l Listener, r sockets.Report) string {
	others := x.others(r, string(l.Proto))
	svc, port := x.s.Services.At(l.Service), l.Dst.Port()
	switch {
	case svc == nil && strings.HasPrefix(l.Object, "node "):
		return "kubectl get services -A: use one of the node ports, or start the process"
	case svc == nil && len(distinctPorts(others)) == 1:
		return fmt.Sprintf("use port %d, or make the process listen on %d", others[0].Addr.Port(), port)
	case svc == nil:
		return fmt.Sprintf("use a port that the Pod listens on, or make the process listen on %d", port)
	case svc.Headless:
		if own := x.ownPort(svc, l); own != 0 && own != port {
			return fmt.Sprintf("use %s:%d: the name of a headless Service leads to the Pods, so the port is the Pods' own", svc.Name.Name+"."+svc.Name.Namespace, own)
		}
	case len(others) > 0 && len(distinctPorts(others)) == 1:
		return targetPortFix(svc, port, others[0].Addr.Port())
	}
	return fmt.Sprintf("make the process listen on %d, or change targetPort", port)
}

// ownPort is the Pods' port of a headless Service that was meant: that of the Service's port asked for, or its only one.
func (x *Index) ownPort(svc *model.Service, l Listener) (own uint16) {
	for i := range svc.Ports {
		p := &svc.Ports[i]
		if protoOf(p.Protocol) != l.Proto || p.Port != l.Dst.Port() && len(svc.Ports) > 1 {
			continue
		}
		for _, t := range x.candidates(svc, p, l.Dst.Addr().Is4()) {
			own = t.Port()
		}
	}
	return own
}

func targetPortFix(svc *model.Service, from, to uint16) string {
	for _, p := range svc.Ports {
		if p.TargetPort.Name == "" && (p.TargetPort.Number == from || p.TargetPort.Number == 0 && p.Port == from) {
			return diff(fmt.Sprintf("%s spec.ports[port %d]", serviceObject(svc), p.Port), fmt.Sprintf("targetPort: %d", from), fmt.Sprintf("targetPort: %d", to))
		}
	}
	return diff("the container port in the Pod template", fmt.Sprintf("containerPort: %d", from), fmt.Sprintf("containerPort: %d", to))
}

func distinctPorts(all []sockets.Listener) map[uint16]bool {
	out := map[uint16]bool{}
	for _, l := range all {
		out[l.Addr.Port()] = true
	}
	return out
}

func listenerText(all []sockets.Listener) string {
	var out []string
	for i, l := range all {
		if i == 4 {
			out = append(out, fmt.Sprintf("and %d more", len(all)-i))
			break
		}
		s := l.Addr.String()
		if l.Command != "" {
			s += fmt.Sprintf(" (%s, pid %d)", l.Command, l.PID)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

// settle gives every step its state by all that is known of it now, and the outcome by the first broken one.
func (c *comparer) settle() {
	broken := false
	for i := range c.p.Steps {
		st := &c.p.Steps[i]
		bad := st.Err == nil && !st.Verdict.Good() || hasError(st.Findings)
		switch {
		case bad && broken:
			st.State = WouldFail
		case bad:
			if st.State != Broken {
				c.p.Outcome = brokenOutcome(st)
			}
			st.State, broken = Broken, true
		case !c.proven(st):
			st.State = Unknown
		case broken:
			st.State = WouldPass
		default:
			st.State = OK
		}
	}
}

// proven reports whether enough is known to call the step good: the live state agrees, or it was seen to work.
func (c *comparer) proven(st *Step) bool {
	switch {
	case st.Seen:
		return true
	case st.Err != nil:
		return false
	case st.open():
		return false
	case st.Hop == HopProcess:
		return len(st.Pods) == 0 || c.l.Sockets == nil && c.l.Programmed == nil
	}
	return st.Programmed != nil || c.l.Programmed == nil
}

// brokenOutcome is what the sender sees of a step that only the live state, or what was observed, shows to be broken.
func brokenOutcome(st *Step) Outcome {
	v := st.Verdict
	if st.Programmed != nil && !st.Programmed.Good() {
		v = *st.Programmed
	}
	o := Outcome{Action: v.Action, Status: v.Status, Rcode: v.Rcode, Records: v.Records}
	if v.Good() { // what it would answer does not arrive
		o = Outcome{Action: flow.Dropped}
		if st.Hop == HopProcess && st.Verdict.Good() {
			o.Action = flow.Refused
		}
	}
	return o
}
