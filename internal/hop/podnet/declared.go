package podnet

import (
	"fmt"
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/podnet/ipam"
	"github.com/podway/podway/internal/model"
)

// Declared is where the cluster's objects want f to go from node f.Node on: to the node of the Pod with the address, or
// past the pod network. host may be nil; then a node's address counts as one on a network of f.Node.
func Declared(s *model.Snapshot, o Options, host *Host, f flow.Flow) flow.Verdict {
	o = o.withDefaults()
	dst := f.Dst.Addr()
	if n := nodeWith(s, dst); n != nil || isGateway(s, f.Node, dst) || isLoopback(s, f) {
		if n == nil {
			n = s.Nodes.At(f.Node)
		}
		return flow.Verdict{Action: flow.Pass, Node: n.Name, Masquerade: leaves(s, o, host, f),
			Why: fmt.Sprintf("%s is an address of node %s", dst, n.Name)}
	}
	owner, why := ownerOf(s, dst)
	if owner == "" {
		return flow.Verdict{Action: flow.Pass, Masquerade: leaves(s, o, host, f), Why: fmt.Sprintf("%s is no address of a Pod or node", dst)}
	}
	if owner == f.Node && unused(s, owner, dst) {
		return flow.Verdict{Action: flow.Refused, Node: owner, Why: fmt.Sprintf("no Pod of node %s has the address %s", owner, dst)}
	}
	return flow.Verdict{Action: flow.Forward, Targets: []netip.AddrPort{f.Dst}, Node: owner, Why: why}
}

// leaves reports whether f is of a Pod of the node and goes where nobody knows Pods' addresses.
func leaves(s *model.Snapshot, o Options, host *Host, f flow.Flow) bool {
	self := s.Nodes.At(f.Node)
	if self == nil || f.From != flow.FromPod || slices.Contains(self.Addrs, f.Dst.Addr()) || contains(gateways(self), f.Dst.Addr()) {
		return false
	}
	src := f.Src.Addr()
	if !contains(self.PodCIDRs, src) || src.Is4() != f.Dst.Addr().Is4() {
		return false
	}
	return !contains(inside(s, o, self, host), f.Dst.Addr())
}

// isLoopback reports whether a flow stays on the node itself.
func isLoopback(s *model.Snapshot, f flow.Flow) bool {
	return f.Dst.Addr().IsLoopback() && s.Nodes.At(f.Node) != nil
}

// isGateway reports whether the address is the node's own in one of its ranges. Other nodes send packets for it as for
// any of the range.
func isGateway(s *model.Snapshot, node string, a netip.Addr) bool {
	n := s.Nodes.At(node)
	return n != nil && contains(gateways(n), a)
}

// nodeWith returns the node that has the address among those that the cluster knows it by.
func nodeWith(s *model.Snapshot, a netip.Addr) *model.Node {
	for n := range s.Nodes.Values() {
		if slices.Contains(n.Addrs, a) {
			return n
		}
	}
	return nil
}

// gateways are the addresses that a node has in its own ranges.
func gateways(n *model.Node) []netip.Prefix {
	var out []netip.Prefix
	for _, c := range n.PodCIDRs {
		out = append(out, single(ipam.Gateway(c)))
	}
	return out
}

// ownerOf is the node to which packets for a Pod's address go: the one whose range it is of, since routes are by range;
// else the one that the Pod says.
func ownerOf(s *model.Snapshot, a netip.Addr) (node, why string) {
	for n := range s.Nodes.Values() {
		for _, c := range n.PodCIDRs {
			if c.Contains(a) && (node == "" || n.Name < node) {
				node, why = n.Name, fmt.Sprintf("%s is of %s, the Pod range of node %s", a, c.Masked(), n.Name)
			}
		}
	}
	if node != "" {
		return node, why
	}
	for p := range s.Pods.Values() {
		if !p.HostNetwork && !p.Terminal() && slices.Contains(p.Addrs, a) {
			return p.Node, fmt.Sprintf("%s is the address of Pod %s", a, p.Name)
		}
	}
	return "", ""
}

// unused reports whether the Pods of the node are known and none has the address.
func unused(s *model.Snapshot, node string, a netip.Addr) bool {
	known := false
	for p := range s.Pods.Values() {
		if p.Node != node || p.HostNetwork || p.Terminal() || len(p.Addrs) == 0 {
			continue
		}
		if known = true; slices.Contains(p.Addrs, a) {
			return false
		}
	}
	return known
}
