package nft

import (
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	knft "github.com/podway/podway/internal/kernel/nft"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/maglev"
)

// class is all that the rules must know of a frontend to choose an endpoint, apart from the endpoints themselves.
// Frontends of one class share a chain: numgen's modulus is a constant of a rule, so there is one chain for each number
// of endpoints, not one for each Service.
type class struct {
	refuse   bool // no endpoint anywhere: reject
	none     bool // the policy is Local and no endpoint is here: drop
	external bool // not a ClusterIP
	local    bool // a Local policy decides
	guarded  bool // loadBalancerSourceRanges
	node     bool // a NodePort
	maglev   bool // the client's address decides; cluster and here count slots of tables
	cluster  uint16
	here     uint16 // endpoints on this node
	affinity uint32 // seconds
}

// most is the largest number of endpoints of a port that are programmed in one list.
const most = 1<<16 - 1

// classOf returns the class of one frontend of a port.
func classOf(p *proxy.Port, kind proxy.FrontendKind, guarded bool) class {
	c := class{guarded: guarded, external: kind != proxy.ClusterIP, node: kind == proxy.NodePort, maglev: p.Maglev}
	if !p.Any {
		return class{refuse: true, guarded: guarded}
	}
	c.local = p.InternalLocal && !c.external || p.ExternalLocal && c.external
	if !c.local || c.external {
		c.cluster = c.slots(p.Cluster)
	}
	if c.local {
		c.here = c.slots(p.Local)
	}
	if c.cluster == 0 && c.here == 0 {
		return class{none: true, guarded: guarded}
	}
	if p.Affinity > 0 {
		c.affinity = uint32(max(1, p.Affinity/time.Second))
	}
	return c
}

// slots is how many numbers lead to the endpoints of a list.
func (c class) slots(list []netip.AddrPort) uint16 {
	if c.maglev && len(list) > 0 {
		return uint16(maglev.Size(len(list)))
	}
	return uint16(min(len(list), most))
}

// chain is the name of the class's chain: lb-3, local-2, ext-local-2-of-3, with -maglev, -sticky-10800 and -guarded, and
// node- before it for NodePorts. Classes that differ only in what becomes of the source address share one.
func (c class) chain() string {
	var b strings.Builder
	if c.node {
		b.WriteString("node-")
	}
	switch {
	case c.refuse:
		b.WriteString(reject)
	case c.none:
		b.WriteString(drop)
	case c.external && c.local:
		fmt.Fprintf(&b, "ext-local-%d-of-%d", c.here, c.cluster)
	case c.local:
		fmt.Fprintf(&b, "local-%d", c.here)
	default:
		fmt.Fprintf(&b, "lb-%d", c.cluster)
	}
	if c.maglev {
		b.WriteString("-maglev")
	}
	if c.affinity > 0 {
		fmt.Fprintf(&b, "-sticky-%d", c.affinity)
	}
	if c.guarded {
		b.WriteString("-guarded")
	}
	return b.String()
}

// fixed reports whether the class's chain is one of those that are always there.
func (c class) fixed() bool { return (c.refuse || c.none) && !c.guarded }

// masquerade decides about the source address of the class's packets: a chain, or nothing at all.
func (c class) masquerade(p *proxy.Plan, is4 bool) knft.Verdict {
	switch {
	case c.external && c.local:
		return knft.To(masqOwn)
	case c.external, p.Settings.MasqueradeAll:
		return knft.To(masqAlways)
	case p.LocalPods(is4).Known():
		return knft.To(masqForeign)
	}
	return knft.Verdict{Kind: knft.Return}
}

// name tells classes apart.
func (c class) name() string {
	if c.external {
		return c.chain() + " external"
	}
	return c.chain()
}

// hash is the number that a class would like to have in the maps; tests replace it to make classes collide.
var hash = func(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name))
	return h.Sum32()
}

// word is a class's number as the maps have it.
func (c class) word() uint32 { return hash(c.name()) }

// words numbers classes. Each gets its own number unless another one before it, in order of their names, has it already;
// then the next free one. That depends on all classes, so moved tells that a partial change is not enough.
func words(classes map[class]int) (out map[class]uint32, moved bool) {
	out = make(map[class]uint32, len(classes))
	taken := make(map[uint32]bool, len(classes))
	for _, c := range slices.SortedFunc(maps.Keys(classes), func(a, b class) int { return strings.Compare(a.name(), b.name()) }) {
		w := c.word()
		for taken[w] {
			w, moved = w+1, true
		}
		taken[w], out[c] = true, w
	}
	return out, moved
}
