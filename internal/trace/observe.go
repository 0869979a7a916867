package trace

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/podway/podway/internal/flow"
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
	dst, proto := st.Flow.Dst, string(st.Flow.Proto)
	if st.Flow.Proto == flow.SCTP {
		st.Unasked = "SCTP sockets are not listed in /proc"
		return
	}
	how, on := r.On(proto, dst)
	port := fmt.Sprintf("%d/%s", dst.Port(), proto)
	name := st.Pods[0]
	f := flow.Finding{Code: flow.NothingListens, Severity: flow.Error, Object: "Pod " + name.String()}
	switch how {
	case sockets.Reached:
		st.Seen = true
		st.Observed = append(st.Observed, "listens on "+listenerText(on))
		return
	case sockets.Loopback:
		f.Code = flow.ListensOnLoopback
		f.Cause = fmt.Sprintf("the process in Pod %s listens on port %s of the loopback address only (%s)", name, port, share)
		f.Fix = "make the process listen on " + all(dst) + " instead of " + on[0].Addr.Addr().String()
	case sockets.Family:
		f.Cause = fmt.Sprintf("the process in Pod %s listens on port %s of the other address family only (%s)", name, port, share)
		f.Fix = "make the process listen on " + all(dst) + " as well"
	default:
		f.Cause = fmt.Sprintf("nothing listens on port %s in Pod %s (%s)", port, name, share)
		f.Fix = c.portFix(st, r)
	}
	seen := "nothing listens on " + port
	if len(on) > 0 {
		seen = "only " + listenerText(on)
	} else if others := c.others(r, proto); len(others) > 0 {
		seen += "; the Pod listens on " + listenerText(others)
	}
	f.Evidence = []string{"declared " + dst.String(), "observed " + seen}
	st.Observed = append(st.Observed, seen)
	st.Findings = append([]flow.Finding{f}, st.Findings...)
}

func all(dst netip.AddrPort) string {
	if dst.Addr().Is4() {
		return "0.0.0.0"
	}
	return "::"
}

// others is the sockets that anybody can reach.
func (c *comparer) others(r *sockets.Report, proto string) []sockets.Listener {
	var out []sockets.Listener
	for _, l := range r.Listeners {
		if l.Proto == proto && !l.Addr.Addr().IsLoopback() {
			out = append(out, l)
		}
	}
	return out
}

// portFix proposes the one other port that the Pod listens on.
func (c *comparer) portFix(st *Step, r *sockets.Report) string {
	others := c.others(r, string(st.Flow.Proto))
	svc := c.s.Services.At(st.Service)
	if svc == nil || len(others) == 0 || len(distinctPorts(others)) > 1 {
		return fmt.Sprintf("make the process listen on %d, or change targetPort", st.Flow.Dst.Port())
	}
	to := others[0].Addr.Port()
	for _, p := range svc.Ports {
		if p.TargetPort.Name == "" && (p.TargetPort.Number == st.Flow.Dst.Port() || p.TargetPort.Number == 0 && p.Port == st.Flow.Dst.Port()) {
			return diff(fmt.Sprintf("%s spec.ports[port %d]", serviceObject(svc), p.Port), fmt.Sprintf("targetPort: %d", st.Flow.Dst.Port()), fmt.Sprintf("targetPort: %d", to))
		}
	}
	return diff("the container port in the Pod template", fmt.Sprintf("containerPort: %d", st.Flow.Dst.Port()), fmt.Sprintf("containerPort: %d", to))
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
	if v.Good() {
		o.Action = flow.Dropped
		if st.Hop == HopProcess && st.Verdict.Good() {
			o.Action = flow.Refused
		}
	}
	return o
}
