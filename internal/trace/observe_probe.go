package trace

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace/probe"
	"github.com/podway/podway/internal/trace/sockets"
)

// probeAll sends the question itself, and one connection to every target, so that a failure is told apart: the Service's
// address or the Pod's, the network or the process.
func (c *comparer) probeAll() {
	from, ok := c.origin()
	if !ok {
		return
	}
	for i := range c.p.Steps {
		if st := &c.p.Steps[i]; st.Hop == HopName && st.Flow.Dst.IsValid() && c.p.Question.From != flow.FromOutside {
			c.probeName(st, from)
		}
	}
	if c.p.Question.DNSType != "" {
		return
	}
	if proto := c.p.Question.Proto; proto != flow.TCP {
		c.p.NotChecked = append(c.p.NotChecked, fmt.Sprintf("a probe over %s: silence would prove nothing", proto))
		return
	}
	first := c.firstPacket()
	if first == nil {
		return
	}
	whole := c.probeWhole(first, from)
	c.probeTargets(whole, first, from)
}

// origin is where the client's packets start.
func (c *comparer) origin() (Origin, bool) {
	q := c.p.Question
	switch q.From {
	case flow.FromOutside:
		return Origin{}, true
	case flow.FromNode:
		return Origin{Node: q.Sender}, true
	}
	ns, name, _ := strings.Cut(q.Sender, "/")
	p := c.s.Pods.At(model.N(ns, name))
	if p == nil {
		return Origin{}, false
	}
	return Origin{Node: p.Node, PodUID: p.UID}, true
}

// firstPacket is the step where the client's own connection starts.
func (c *comparer) firstPacket() *Step {
	for i := range c.p.Steps {
		if st := &c.p.Steps[i]; st.Hop != HopName && st.Flow.Dst.IsValid() {
			return st
		}
	}
	return nil
}

func (c *comparer) probeName(st *Step, from Origin) {
	a, err := c.l.Probe(c.ctx, from, probe.Request{Kind: probe.DNS, Dst: st.Flow.Dst, DNS: st.Flow.DNS})
	if err != nil || a.Result == probe.Failed {
		c.notProbed(from, a, err)
		return
	}
	if a.Result != probe.Answered {
		st.Observed = append(st.Observed, fmt.Sprintf("%s: %s after %s", st.Flow.Dst, a.Result, round(a.Took)))
		if st.Verdict.Good() && !hasError(st.Findings) {
			st.Findings = append(st.Findings, finding(flow.DNSServerDown, "DNS server "+st.Flow.Dst.String(),
				fmt.Sprintf("the cluster's DNS did not answer the client: %s", a.Result), "kubectl -n kube-system get pods -o wide: see the DNS server on node "+st.Node,
				"observed "+string(a.Result)+": "+a.Error))
		}
		return
	}
	got := flow.Verdict{Action: flow.Answer, Rcode: a.Rcode, Records: a.Records}
	st.Observed = append(st.Observed, fmt.Sprintf("%s in %s", got, round(a.Took)))
	upstream := st.Verdict.Action != flow.Answer
	if upstream || slices.Equal(a.Records, st.Verdict.Records) && a.Rcode == st.Verdict.Rcode {
		st.Seen = true
		return
	}
	code := flow.DNSWrongAnswer
	if a.Rcode == "SERVFAIL" {
		code = flow.DNSNotSynced
	}
	st.Findings = append(st.Findings, finding(code, "DNS server "+st.Flow.Dst.String(), "the answer that the client gets is not what the cluster says",
		"see the DNS server's log and the age of its view", "declared "+st.Verdict.String(), "observed "+got.String()))
}

// probeWhole sends what the user asks for to where the client would send it.
func (c *comparer) probeWhole(first *Step, from Origin) probe.Answer {
	r := probe.Request{Kind: probe.Conn, Dst: first.Flow.Dst}
	if t, _, err := ParseTarget(c.p.Question.Target); err == nil && t.URL != nil {
		r.Kind, r.HTTP = probe.HTTP, t.URL
		r.HTTP.Method = c.p.Question.Method
	}
	a, err := c.l.Probe(c.ctx, from, r)
	if err != nil || a.Result == probe.Failed {
		c.notProbed(from, a, err)
		return probe.Answer{Result: probe.Failed}
	}
	text := fmt.Sprintf("%s: %s in %s", first.Flow.Dst, a.Result, round(a.Took))
	if a.Status != 0 {
		text = fmt.Sprintf("%s: HTTP %d in %s", first.Flow.Dst, a.Status, round(a.Took))
		if a.Server != "" {
			text += " by " + a.Server
		}
	}
	first.Observed = append(first.Observed, text)
	if a.TLS != "" {
		first.Findings = append(first.Findings, flow.Finding{Code: flow.IngressBadSecret, Severity: flow.Warning, Object: "host " + r.HTTP.Host,
			Cause: "a strict client refuses the certificate: " + a.TLS, Fix: "see spec.tls of the Ingress and its Secret", Evidence: []string{"observed " + a.TLS}})
	}
	if a.Result == probe.Answered {
		for i := range c.p.Steps {
			if st := &c.p.Steps[i]; st.Hop == HopAnnounce || st.Hop == HopProxy || st.Hop == HopIngress {
				st.Seen = true
			}
		}
	}
	return a
}

// notProbed says once why there was no probe.
func (c *comparer) notProbed(from Origin, a probe.Answer, err error) {
	why := a.Error
	if err != nil {
		why = reason(err)
	}
	s := "the probe"
	if from.Node != "" {
		s += " from node " + from.Node
	}
	if s += ": " + why; !slices.Contains(c.p.NotChecked, s) {
		c.p.NotChecked = append(c.p.NotChecked, s)
	}
}

func round(d time.Duration) time.Duration {
	if d > 10*time.Millisecond {
		return d.Round(time.Millisecond)
	}
	return d.Round(10 * time.Microsecond)
}

// probeTargets connects to every target directly and puts the blame where it belongs.
func (c *comparer) probeTargets(whole probe.Answer, first *Step, from Origin) {
	tried, answered := 0, 0
	for i := range c.p.Steps {
		st := &c.p.Steps[i]
		if st.Hop != HopProcess || !st.Flow.Dst.IsValid() || tried >= maxDirect {
			continue
		}
		tried++
		if c.probeTarget(i, st, c.originOf(st, from)) {
			answered++
		}
	}
	failed := whole.Result != probe.Answered && whole.Result != probe.Failed
	if !failed || tried == 0 || answered < tried || c.anyBad() {
		return
	}
	code := flow.RulesDiffer
	if first.Hop == HopAnnounce {
		code = flow.LBNotAnnounced
	}
	first.Findings = append(first.Findings, finding(code, "node "+programmedNode(first), fmt.Sprintf("%s is %s, though every target answers when it is asked directly", first.Flow.Dst, whole.Result),
		"see podway-node on node "+programmedNode(first)+", and other programs that write rules for Services there", "observed "+first.Flow.Dst.String()+": "+whole.Error))
}

// maxDirect bounds the probes of a fan-out.
const maxDirect = 16

// originOf is where the last connection to the target starts: at the client; at the node where a packet from outside
// entered; at the ingress Pod behind it.
func (c *comparer) originOf(st *Step, client Origin) Origin {
	hop := HopProxy
	if st.Leg > 0 {
		hop = HopIngress
	}
	if st.Leg == 0 && client.Node != "" {
		return client
	}
	var at *Step
	for i := range c.p.Steps {
		if s := &c.p.Steps[i]; s.Hop == hop {
			at = s
		}
	}
	if at == nil {
		return client
	}
	o := Origin{Node: at.Node}
	if st.Leg > 0 && len(at.Pods) > 0 {
		if p := c.s.Pods.At(at.Pods[0]); p != nil {
			o.PodUID = p.UID
		}
	}
	return o
}

// probeTarget connects to one target; it reports whether it answered.
func (c *comparer) probeTarget(i int, st *Step, from Origin) bool {
	a, err := c.l.Probe(c.ctx, from, probe.Request{Kind: probe.Conn, Dst: st.Flow.Dst})
	if err != nil || a.Result == probe.Failed {
		c.notProbed(from, a, err)
		return false
	}
	seen := fmt.Sprintf("%s: %s in %s", st.Flow.Dst, a.Result, round(a.Took))
	if a.Result == probe.Answered {
		st.Observed, st.Seen = append(st.Observed, seen), true
		st.Findings = slices.DeleteFunc(st.Findings, func(f flow.Finding) bool { // a sandboxed Pod's sockets are not the kernel's
			return f.Code == flow.NothingListens || f.Code == flow.ListensOnLoopback
		})
		c.eachNetwork(i, func(n *Step) { n.Seen = true })
		return true
	}
	if a.Result == probe.Refused || a.Result == probe.Reset {
		st.Observed = append(st.Observed, seen)
		if !hasError(st.Findings) {
			st.Findings = append(st.Findings, finding(flow.NothingListens, object(st), fmt.Sprintf("%s refuses connections", st.Flow.Dst),
				c.portFix(Listener{Object: object(st), Service: st.Service, Dst: st.Flow.Dst, Proto: st.Flow.Proto}, sockets.Report{}), "observed "+seen))
		}
		return false
	}
	lost := finding(flow.PacketsLost, object(st), fmt.Sprintf("a connection from %s to %s got %s", originText(from), st.Flow.Dst, a.Result),
		"see the forward chain's drop counters of the nodes, network policies, and the network between the nodes", "observed "+seen)
	blamed := false
	c.eachNetwork(i, func(n *Step) {
		if !blamed {
			n.Observed, blamed = append(n.Observed, seen), true
			if !hasError(n.Findings) {
				n.Findings = append(n.Findings, lost)
			}
		}
	})
	return false
}

// eachNetwork calls f for the network steps that lead to the process step at i.
func (c *comparer) eachNetwork(i int, f func(*Step)) {
	for j := i - 1; j >= 0; j-- {
		switch st := &c.p.Steps[j]; st.Hop {
		case HopPodnet:
			f(st)
		case HopProcess:
			if j+1 < i && c.p.Steps[j+1].Hop == HopPodnet {
				return
			}
		default:
			return
		}
	}
}

func object(st *Step) string {
	switch {
	case len(st.Pods) > 0:
		return "Pod " + st.Pods[0].String()
	case st.Node != "":
		return "node " + st.Node
	}
	return "address " + st.Flow.Dst.String()
}

func originText(o Origin) string {
	switch {
	case o.Node == "":
		return "this machine"
	case o.PodUID == "":
		return "node " + o.Node
	}
	return "the Pod on node " + o.Node
}

func (c *comparer) anyBad() bool {
	return slices.ContainsFunc(c.p.Steps, func(st Step) bool { return hasError(st.Findings) || st.Err == nil && !st.Verdict.Good() })
}
