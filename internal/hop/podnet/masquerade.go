package podnet

import (
	"net/netip"
	"slices"

	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/model"
)

// multicast is never answered by whom it is sent to, so that a translated source would help nobody.
var multicast = []netip.Prefix{netip.MustParsePrefix("224.0.0.0/4"), netip.MustParsePrefix("ff00::/8")}

// masquerade renders the table of one family: packets that this node's Pods send to where nobody knows Pods' addresses
// leave with the node's.
func masquerade(is4 bool, pods, inside []netip.Prefix) *nft.Table {
	f := nft.IPv6
	if is4 {
		f = nft.IPv4
	}
	t := nft.NewTable(f, Table)
	t.Comment = "podway: packets of Pods that leave the cluster"
	key := []nft.Type{nft.AddrType(f)}
	t.AddSet(
		&nft.Set{Name: "pods", Key: key, Interval: true, Elems: elements(ofFamily(pods, is4))},
		&nft.Set{Name: "inside", Key: key, Interval: true, Elems: elements(ofFamily(inside, is4))},
	)
	return t.AddChain(&nft.Chain{
		Name: "postrouting",
		Base: &nft.Base{Type: "nat", Hook: nft.Postrouting, Priority: nft.PrioritySrcNAT},
		Rules: []nft.Rule{nft.R(
			nft.SrcAddr(f, 0), nft.InSet("pods", 0), nft.DstAddr(f, 0), nft.NotInSet("inside", 0), nft.Masquerade{FullyRandom: true},
		)},
	})
}

// inside is where packets of this node's Pods go with the Pods' own addresses: Pods, Services, nodes on networks of this
// node, which send their answers straight back, and what the user adds. A node on another network could not answer a
// Pod: the packet would travel bare and the answer in the tunnel.
func inside(s *model.Snapshot, o Options, self *model.Node, host *Host) []netip.Prefix {
	out := slices.Concat(multicast, o.ServiceCIDRs, o.NoMasquerade)
	for n := range s.Nodes.Values() {
		for _, p := range n.PodCIDRs {
			out = append(out, p.Masked())
		}
		for _, is4 := range []bool{true, false} {
			if a := n.Addr(is4); a.IsValid() && (n.Name == self.Name || direct(o, host, a)) {
				out = append(out, single(a))
			}
		}
	}
	return out
}

// direct reports whether the node with the address is reached without the tunnel. Where the host is not known, the
// common case is taken.
func direct(o Options, host *Host, a netip.Addr) bool {
	if o.Overlay == OverlayAlways {
		return false
	}
	if host == nil {
		return true
	}
	_, ok := host.onLink(a)
	return ok
}
