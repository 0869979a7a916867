package trace

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
	"github.com/podway/podway/internal/trace/ask"
)

// NodeFindings says what is wrong with a node by its agent's own account.
func NodeFindings(node string, s *ask.Status) []flow.Finding {
	var out []flow.Finding
	if s.Lost > 0 {
		out = append(out, stale(node, s, flow.Warning))
	}
	hops := make([]string, 0, len(s.Failing))
	for hop := range s.Failing {
		hops = append(hops, hop)
	}
	slices.Sort(hops)
	for _, hop := range hops {
		out = append(out, flow.Finding{Code: flow.ApplyFailed, Severity: flow.Error, Object: "node " + node,
			Cause: fmt.Sprintf("podway could not program hop %s of node %s: %s", hop, node, s.Failing[hop]), Fix: "see the agent's log; it retries"})
	}
	if f, full := conntrackFinding(node, s); full {
		out = append(out, f)
	}
	return append(out, s.Findings...)
}

// NodeDaemonSet is what makes the Pods of podway's node agent.
const NodeDaemonSet = "DaemonSet kube-system/podway-node"

// Root is the cause behind a finding that only follows from it: the ingress proxy or the cluster's DNS is down, or nobody
// announces an address, because the Pods of their Service cannot be used.
func (x *Index) Root(f flow.Finding) flow.Finding {
	ns, name, is := strings.Cut(strings.TrimPrefix(f.Object, "Service "), "/")
	if !is || f.Code != flow.IngressDown && f.Code != flow.DNSServerDown && f.Code != flow.LBNotAnnounced {
		return f
	}
	svc := x.s.Services.At(model.N(ns, name))
	if svc == nil || len(svc.Ports) == 0 || len(x.ready(svc, &svc.Ports[0], true))+len(x.ready(svc, &svc.Ports[0], false)) > 0 {
		return f
	}
	if inner := x.explainBackends(svc, &svc.Ports[0]); inner != nil {
		return *inner
	}
	return f
}

// Pod is the Pod at the target, as the endpoints of the Service name it; nil for an address that is no Pod's.
func (x *Index) Pod(t netip.AddrPort, of model.Name) *model.Pod { return x.pod(t, of) }

// conntrackFinding looks at the table that every connection through a Service needs a place in; from 90% on it is one.
func conntrackFinding(node string, s *ask.Status) (flow.Finding, bool) {
	if s.Conntrack == nil || s.Conntrack.Count*10 < s.Conntrack.Max*9 {
		return flow.Finding{}, false
	}
	f := flow.Finding{Code: flow.ConntrackFull, Severity: flow.Warning, Object: "node " + node,
		Cause: fmt.Sprintf("the connection tracking table of node %s holds %d of %d entries", node, s.Conntrack.Count, s.Conntrack.Max),
		Fix:   fmt.Sprintf("sysctl -w net.netfilter.nf_conntrack_max=%d, and keep it in /etc/sysctl.d", 2*s.Conntrack.Max)}
	if s.Conntrack.Count >= s.Conntrack.Max {
		f.Severity = flow.Error
	}
	return f, true
}
