package iptables

import (
	"testing"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest/packets"
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/sysctl"
)

func TestPackets(t *testing.T) {
	for _, v := range variants {
		t.Run(string(v), func(t *testing.T) {
			needTools(t, v)
			packets.Run(t, packets.Subject{New: func(ns *netns.NS) proxy.Backend {
				return New(func() (kipt.Door, error) { return kipt.Open(ns, v) }, sysctl.Open(ns))
			}})
		})
	}
}
