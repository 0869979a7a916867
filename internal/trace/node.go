package trace

import (
	"fmt"
	"slices"

	"github.com/podway/podway/internal/flow"
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
