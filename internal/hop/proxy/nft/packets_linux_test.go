package nft

import (
	"testing"
	"time"

	"github.com/podway/podway/internal/flow"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest/packets"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/nettest/vm"
)

var tried = packets.Subject{New: func(ns *netns.NS) proxy.Backend { return In(ns) }}

func TestPacketsThroughTheRules(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	t.Parallel()
	packets.Run(t, tried)
}

// The kernel that tests run on may lack SCTP and netem.
func TestPacketsOfSCTPAndOnABadPath(t *testing.T) {
	t.Parallel()
	vm.Test(t, vm.Machine{Timeout: 5 * time.Minute}, func(t *testing.T) {
		s := tried
		s.Protos, s.Slow = packets.All, true
		t.Run("a bad path", func(t *testing.T) { packets.BadPath(t, s) })
		s.Elsewhere = []flow.Proto{flow.TCP, flow.UDP}
		t.Run("SCTP", func(t *testing.T) { packets.Run(t, s) })
	})
}
