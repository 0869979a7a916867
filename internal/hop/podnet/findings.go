package podnet

import (
	"fmt"
	"net/netip"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/kernel/route"
	"github.com/podway/podway/internal/model"
)

func finding(code flow.Code, severity flow.Severity, node, cause string, evidence ...string) flow.Finding {
	about, _ := flow.CauseOf(code)
	return flow.Finding{Code: code, Severity: severity, Object: "node " + node, Cause: cause, Evidence: evidence, Fix: about.Fix}
}

func noPodCIDR(node string, exists bool) flow.Finding {
	if !exists {
		f := finding(flow.NoPodCIDR, flow.Error, node, fmt.Sprintf("the cluster has no Node %s; the pod network stays as it is", node))
		f.Fix = "see that the kubelet registered under the name that podway-node was given"
		return f
	}
	return finding(flow.NoPodCIDR, flow.Error, node, fmt.Sprintf("spec.podCIDRs of node %s is empty; Pods get no address there", node))
}

func sameRange(node, other string, c netip.Prefix) flow.Finding {
	f := finding(flow.NoPodCIDR, flow.Error, node, fmt.Sprintf("nodes %s and %s both have the Pod range %s; only %s gets its packets", other, node, c, other))
	f.Fix = "kubectl delete node " + node + ", and let it register anew"
	return f
}

func noWay(self string, n *model.Node, c netip.Prefix, never bool) flow.Finding {
	if never {
		f := finding(flow.NoRouteToPod, flow.Error, self, fmt.Sprintf("node %s is on another network than node %s, and the overlay is switched off", n.Name, self),
			fmt.Sprintf("declared %s is the Pod range of node %s", c, n.Name))
		f.Fix = "set the overlay to auto"
		return f
	}
	f := finding(flow.NoRouteToPod, flow.Error, n.Name, fmt.Sprintf("nodes %s and %s have no InternalIP addresses of the same family", self, n.Name),
		fmt.Sprintf("declared %s is the Pod range of node %s", c, n.Name))
	f.Fix = "start the kubelet of both with a --node-ip of the same family"
	return f
}

func routeTaken(self, node string, want, have route.Route) flow.Finding {
	f := finding(flow.RouteTaken, flow.Error, self, fmt.Sprintf("node %s has a route of another program to %s, the Pod range of node %s", self, want.Dst, node),
		"declared "+want.String(), "programmed "+have.String())
	f.Fix = fmt.Sprintf("find out who made the route (ip route show %s), and remove it: ip route del %s", want.Dst, have.Dst)
	return f
}

func forwardingOff(node, key string, err error) flow.Finding {
	return finding(flow.ForwardingOff, flow.Error, node, fmt.Sprintf("%s is 0 on node %s, and podway cannot set it", key, node), "observed "+err.Error())
}

func noVeth(node string, dst netip.Addr, evidence string) flow.Finding {
	return finding(flow.NoVethOfPod, flow.Error, node, fmt.Sprintf("node %s has no device for the Pod address %s", node, dst), evidence)
}

func noRoute(node string, dst netip.Addr, owner, evidence string) flow.Finding {
	return finding(flow.NoRouteToPod, flow.Error, node, fmt.Sprintf("node %s has no way to %s, a Pod address of node %s", node, dst, owner), evidence)
}
