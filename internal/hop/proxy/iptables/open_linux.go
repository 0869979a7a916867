package iptables

import (
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// In returns the backend for the tables of a network namespace, nil is the process's own; the variant of the tools is the
// one that the host's other programs use.
func In(ns *netns.NS) *Backend {
	b := New(nil, sysctl.Open(ns))
	b.open = func() (kipt.Door, error) {
		d, err := kipt.Open(ns, "")
		if err != nil {
			return nil, err
		}
		b.others = func() []kipt.Door { return others(ns, d.Variant()) }
		return d, nil
	}
	return b
}

// others are the doors to what other variants of the tools write, as far as they are installed.
func others(ns *netns.NS, used kipt.Variant) (out []kipt.Door) {
	for _, v := range []kipt.Variant{kipt.NFT, kipt.Legacy} {
		if v == used {
			continue
		}
		if d, err := kipt.Open(ns, v); err == nil {
			out = append(out, d)
		}
	}
	return out
}
