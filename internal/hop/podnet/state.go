package podnet

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/route"
)

// State is all that podnet keeps on a node, beside what the CNI plugin makes for each Pod: what Plan wants, and what
// reading the kernel finds.
type State struct {
	Config     NodeConfig        // zero: none, the plugin waits
	Tunnel     *link.Link        // nil: none
	Routes     []route.Route     // of podway's protocol, without those to this node's Pods; in the order of Route.Compare
	Neighbours []route.Neighbour // of the tunnel; in the order of Neighbour.Compare
	Tables     [2]*nft.Table     // masquerading of IPv4 and IPv6; nil: none
}

// Equal reports whether two states are the same.
func (s State) Equal(o State) bool {
	return s.Config.equal(o.Config) && sameTunnel(s.Tunnel, o.Tunnel) && slices.Equal(s.Routes, o.Routes) &&
		slices.Equal(s.Neighbours, o.Neighbours) && s.Tables[0].Equal(o.Tables[0]) && s.Tables[1].Equal(o.Tables[1])
}

func sameTunnel(a, b *link.Link) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Equal(*b)
}

// Text is the state for people and golden files, as `ip` and `nft` would show it.
func (s State) Text() string {
	var b strings.Builder
	if s.Config.Node != "" {
		fmt.Fprintf(&b, "config node %s mtu %d", s.Config.Node, s.Config.MTU)
		for i, p := range s.Config.PodCIDRs {
			fmt.Fprintf(&b, " range %s gateway %s", p, s.Config.Gateways[i])
		}
		b.WriteByte('\n')
	}
	if s.Tunnel != nil {
		fmt.Fprintln(&b, s.Tunnel)
	}
	for _, r := range s.Routes {
		fmt.Fprintln(&b, "route", r)
	}
	for _, n := range s.Neighbours {
		fmt.Fprintln(&b, n)
	}
	for _, t := range s.Tables {
		if t != nil {
			b.WriteString(t.Text())
		}
	}
	return b.String()
}

// sort puts the lists in their order.
func (s *State) sort() {
	slices.SortFunc(s.Routes, route.Route.Compare)
	slices.SortFunc(s.Neighbours, route.Neighbour.Compare)
}
