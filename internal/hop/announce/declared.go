package announce

import (
	"fmt"
	"net/netip"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

const mostEvidence = 20 // lines about nodes

// Declared is which node a packet for a LoadBalancer address arrives at. An address that is not podway's to announce is
// passed: somebody else brings its packets in.
func Declared(s *model.Snapshot, f flow.Flow) flow.Verdict { return declared(newElectorate(s), f) }

func declared(e *electorate, f flow.Flow) flow.Verdict {
	a := f.Dst.Addr()
	if len(e.byIP[a]) == 0 {
		return flow.Verdict{Action: flow.Pass, Why: fmt.Sprintf("%s is no LoadBalancer address", a)}
	}
	el := e.elect(a)
	switch {
	case el.Foreign != "":
		return flow.Verdict{Action: flow.Pass, Why: fmt.Sprintf("%s is not podway's to announce: %s", a, el.Foreign)}
	case !a.Is4():
		return flow.Verdict{Action: flow.Dropped, Why: "IPv6 addresses are not announced", Findings: []flow.Finding{unsupported(el)}}
	case el.Owner == "":
		return flow.Verdict{Action: flow.Dropped, Why: "no node may announce " + a.String(), Findings: []flow.Finding{notAnnounced(el)}}
	}
	return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{f.Dst}, Node: el.Owner,
		Why: fmt.Sprintf("node %s announces %s", el.Owner, a)}
}

func notAnnounced(el Election) flow.Finding {
	f := flow.Finding{Code: flow.LBNotAnnounced, Severity: flow.Error, Object: "Service " + el.Services[0].String(),
		Cause: fmt.Sprintf("no node may announce %s", el.Addr)}
	same, excluded := true, ""
	for i, l := range el.Lacks {
		if i < mostEvidence {
			f.Evidence = append(f.Evidence, "declared node "+l.Node+" "+l.Why)
		}
		same = same && l.Why == el.Lacks[0].Why
		if l.Why == unfit(&model.Node{Ready: true, ExcludeLB: true}) {
			excluded = l.Node
		}
	}
	if n := len(el.Lacks); n > mostEvidence {
		f.Evidence = append(f.Evidence, fmt.Sprintf("and %d more nodes", n-mostEvidence))
	}
	switch {
	case len(el.Lacks) == 0:
		f.Cause += ": the cluster has no node"
	case same:
		f.Cause += ": every node " + el.Lacks[0].Why
	}
	f.Fix = "kubectl get nodes; make one ready, or run a ready Pod of the Service on one"
	if excluded != "" {
		f.Fix = "kubectl label node " + excluded + " node.kubernetes.io/exclude-from-external-load-balancers-"
	}
	return f
}

func unsupported(el Election) flow.Finding {
	return flow.Finding{Code: flow.LBNotAnnounced, Severity: flow.Error, Object: "Service " + el.Services[0].String(),
		Cause: fmt.Sprintf("%s is an IPv6 address, and neighbour discovery is not supported yet", el.Addr),
		Fix:   "route the address to a node by hand, or give the Service an IPv4 address"}
}
