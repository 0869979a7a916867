package proxy

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/model"
)

// Node is what the proxy must know of its own node.
type Node struct {
	Name     string
	Zone     string
	Primary  []netip.Addr   // the first address of each family
	Addrs    []netip.Addr   // where NodePorts answer, sorted (Settings.NodePorts)
	Own      []netip.Addr   // all addresses of the Node object, then those that only the host's devices have
	PodCIDRs []netip.Prefix // the Node object's
	Detect   LocalPods      // how a Pod of this node is told from other clients (Settings.LocalPods)
}

// decideNode collects what the snapshot and the host say of the node. A node that is not there has no addresses: no
// NodePorts then. host may be nil: the addresses of the host's devices are not known.
func decideNode(s *model.Snapshot, name string, set *Settings, host []netip.Addr) Node {
	n := Node{Name: name, Detect: set.LocalPods}
	obj := s.Nodes.At(name)
	if obj == nil {
		return n
	}
	n.Zone, n.Own, n.PodCIDRs = obj.Zone, obj.Addrs, obj.PodCIDRs
	for _, is4 := range []bool{true, false} {
		a := obj.Addr(is4)
		if set.NodeAddr.IsValid() && set.NodeAddr.Is4() == is4 {
			a = set.NodeAddr
		}
		if a.IsValid() {
			n.Primary = append(n.Primary, a)
		}
	}
	if a := set.NodeAddr; a.IsValid() && !slices.Contains(n.Own, a) {
		n.Own = append(slices.Clip(n.Own), a)
	}
	for _, a := range host {
		if !a.IsLoopback() && !slices.Contains(n.Own, a) {
			n.Own = append(slices.Clip(n.Own), a)
		}
	}
	n.Addrs = set.NodePorts.of(&n)
	return n
}

// of returns the addresses of a node that answer to node ports, sorted.
func (p *NodePortAddresses) of(n *Node) []netip.Addr {
	var out []netip.Addr
	switch {
	case p.All || len(p.In) > 0:
		for _, a := range n.Own {
			if p.All || p.has(a, n) {
				out = append(out, a)
			}
		}
	default:
		out = slices.Clone(n.Primary)
	}
	if p.Loopback {
		out = append(out, netip.AddrFrom4([4]byte{127, 0, 0, 1}), netip.IPv6Loopback())
	}
	slices.SortFunc(out, netip.Addr.Compare)
	return slices.Compact(out)
}

// has reports whether an address is one of those wanted. A family of which there is none is not limited, as in kube-proxy.
func (p *NodePortAddresses) has(a netip.Addr, n *Node) bool {
	limited := p.Primary && n.primary(a.Is4()).IsValid()
	if limited && n.primary(a.Is4()) == a {
		return true
	}
	for _, x := range p.In {
		if x.Contains(a) {
			return true
		}
		limited = limited || x.Addr().Is4() == a.Is4()
	}
	return !limited
}

func (n *Node) equal(o *Node) bool {
	return n.Name == o.Name && n.Zone == o.Zone && slices.Equal(n.Primary, o.Primary) && slices.Equal(n.Addrs, o.Addrs) &&
		slices.Equal(n.Own, o.Own) && slices.Equal(n.PodCIDRs, o.PodCIDRs) && n.Detect.equal(&o.Detect)
}

// primary is the node's first address of the family, or the zero Addr.
func (n *Node) primary(is4 bool) netip.Addr {
	for _, a := range n.Primary {
		if a.Is4() == is4 {
			return a
		}
	}
	return netip.Addr{}
}

// Has reports whether an address is one of the node's own.
func (n *Node) Has(a netip.Addr) bool { return slices.Contains(n.Own, a) || a.IsLoopback() }

// PodSource says how a new connection of a Pod of this node is known. The zero value is not at all: then nobody can tell
// a Pod of this node from others.
type PodSource struct {
	In     []netip.Prefix // its source is in one of these
	Device string         // or it comes in by this device,
	Begins bool           // or by any whose name begins with Device
}

// Known reports whether Pods of this node can be told from others.
func (s PodSource) Known() bool { return s.Device != "" || len(s.In) > 0 }

// LocalPods says how a connection of the family from a Pod of this node is known.
func (n *Node) LocalPods(is4 bool) PodSource {
	from := n.PodCIDRs
	switch n.Detect.Mode {
	case ByBridge, ByInterfacePrefix:
		return PodSource{Device: n.Detect.Interface, Begins: n.Detect.Mode == ByInterfacePrefix}
	case ByClusterCIDR:
		from = n.Detect.CIDRs
	}
	var out []netip.Prefix
	for _, p := range from {
		if p.Addr().Is4() == is4 {
			out = append(out, p.Masked())
		}
	}
	return PodSource{In: out}
}

// LocalPods says how a connection of the family from a Pod of this node is known.
func (p *Plan) LocalPods(is4 bool) PodSource { return p.Node.LocalPods(is4) }

// FromLocalPod reports whether a flow is, by the node's way of detection, one from a Pod of this node.
func (n *Node) FromLocalPod(f flow.Flow) bool {
	s := n.LocalPods(f.Dst.Addr().Is4())
	if s.Device != "" {
		return n.Device(f) != ""
	}
	return in(s.In, f.Src.Addr())
}

// Device is the device by which a flow comes in where Pods of this node are known by their device, "" for all others:
// what Eval of a backend must assume, since a flow does not say it.
func (n *Node) Device(f flow.Flow) string {
	if f.From != flow.FromPod || !f.SrcLocal && !in(n.PodCIDRs, f.Src.Addr()) {
		return ""
	}
	switch n.Detect.Mode {
	case ByBridge:
		return n.Detect.Interface
	case ByInterfacePrefix:
		return n.Detect.Interface + "0"
	}
	return ""
}
