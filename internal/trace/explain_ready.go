package trace

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// explainNotReady is for a Service whose Pods exist and none is ready.
func (x *Index) explainNotReady(svc *model.Service, pods []*model.Pod) *flow.Finding {
	if f := x.nodesNotReady(pods); f != nil {
		return f
	}
	if f := x.noAddress(pods); f != nil {
		return f
	}
	first := pods[0]
	f := finding(flow.PodsNotReady, serviceObject(svc), fmt.Sprintf("%s, none is ready", count(len(pods), "Pod matches", "Pods match")),
		fmt.Sprintf("kubectl describe pod -n %s %s", first.Name.Namespace, first.Name.Name))
	if p := common(pods, func(p *model.Pod) string { return p.Problem }); p != "" {
		f.Cause += ": " + p
	}
	if strings.Contains(first.Problem, "CrashLoop") || strings.Contains(first.Problem, "Error") {
		f.Fix = fmt.Sprintf("kubectl logs -n %s %s --previous", first.Name.Namespace, first.Name.Name)
	}
	if p := common(pods, func(p *model.Pod) string { return p.Probe }); p != "" {
		f.Evidence = append(f.Evidence, "declared readiness "+p)
	}
	for i, p := range pods {
		if i == 4 {
			f.Evidence = append(f.Evidence, fmt.Sprintf("declared and %d more", len(pods)-i))
			break
		}
		f.Evidence = append(f.Evidence, "declared "+podText(p))
	}
	return &f
}

func podText(p *model.Pod) string {
	s := fmt.Sprintf("Pod %s %s on %s", p.Name, p.Phase, cmp.Or(p.Node, "no node yet"))
	if p.Deleting {
		s += ", being deleted"
	}
	if p.Problem != "" {
		s += ": " + p.Problem
	}
	return s
}

// nodesNotReady is for Pods that are not ready because their nodes are not.
func (x *Index) nodesNotReady(pods []*model.Pod) *flow.Finding {
	var bad []string
	for _, p := range pods {
		n := x.s.Nodes.At(p.Node)
		if n == nil || n.Ready {
			return nil
		}
		bad = append(bad, n.Name)
	}
	slices.Sort(bad)
	bad = slices.Compact(bad)
	f := finding(flow.NodeNotReady, "node "+bad[0], fmt.Sprintf("%s on nodes that are not ready: %s", count(len(pods), "the only Pod is", "all Pods are"), strings.Join(bad, ", ")),
		"kubectl describe node "+bad[0])
	return &f
}

// noAddress is for Pods that wait for an address of the pod network.
func (x *Index) noAddress(pods []*model.Pod) *flow.Finding {
	for _, p := range pods {
		n := x.s.Nodes.At(p.Node)
		if n == nil || len(p.Addrs) > 0 || p.HostNetwork || p.Deleting {
			return nil
		}
		if len(n.PodCIDRs) == 0 {
			f := finding(flow.NoPodCIDR, "node "+n.Name, fmt.Sprintf("Pod %s has no address: node %s has no spec.podCIDRs", p.Name, n.Name),
				"run the controller manager with --allocate-node-cidrs=true --cluster-cidr=RANGE", "declared "+podText(p))
			return &f
		}
		if used, all := x.poolOf(n); used >= all {
			f := finding(flow.PodAddressesOut, "node "+n.Name, fmt.Sprintf("Pod %s has no address: all %d of %s are taken on node %s", p.Name, all, n.PodCIDRs[0], n.Name),
				"run fewer Pods on this node, or give nodes larger ranges (--node-cidr-mask-size)", "declared "+podText(p))
			return &f
		}
	}
	return nil
}

// poolOf counts the addresses of the node's first range that Pods have, and those that Pods can have: all but the
// network's, the broadcast's and the gateway's.
func (x *Index) poolOf(n *model.Node) (used, all int) {
	cidr := n.PodCIDRs[0]
	bits := cidr.Addr().BitLen() - cidr.Bits()
	if bits > 20 {
		return 0, 1 << 20
	}
	for a := range x.pods {
		if cidr.Contains(a) {
			used++
		}
	}
	return used, max(1<<bits-3, 0)
}

// common is the value that all Pods share, or the first's with a hint that others differ.
func common(pods []*model.Pod, of func(*model.Pod) string) string {
	v := of(pods[0])
	for _, p := range pods {
		if of(p) != v {
			return v + " (others differ)"
		}
	}
	return v
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
