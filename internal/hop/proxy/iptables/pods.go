package iptables

import (
	"net/netip"

	"github.com/podway/podway/internal/hop/proxy"
)

// pods is how a Pod of this node is told from other clients: by its address or by the device that its packet came in by.
type pods struct {
	in     []netip.Prefix
	device string // as iptables takes it: with a + at the end for all that begin so
}

func podsOf(p *proxy.Plan, is4 bool) pods {
	from := p.LocalPods(is4)
	d := pods{in: from.In, device: from.Device}
	if from.Begins {
		d.device += "+"
	}
	return d
}

func (d pods) known() bool { return len(d.in) > 0 || d.device != "" }

// foreign are the rules of the chain markForeign: there when one rule cannot say who is no Pod of this node.
func (d pods) foreign(p *pen) string {
	if len(d.in) < 2 {
		return ""
	}
	for _, pre := range d.in {
		p.start(markForeign).from(pre).jump("RETURN")
	}
	p.start(markForeign).jump(markMasq)
	return p.take()
}
