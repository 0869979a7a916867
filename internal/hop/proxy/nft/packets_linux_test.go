package nft

import (
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest/packets"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/nettest"
	"github.com/podway/podway/internal/nettest/vm"
)

var tried = packets.Subject{New: func(ns *netns.NS) proxy.Backend { return In(ns) }}

func TestPacketsThroughTheRules(t *testing.T) {
	nettest.Need(t, nettest.Root, nettest.NFT)
	packets.Run(t, tried)
}

// The kernel that tests run on may lack SCTP.
func TestPacketsOfEveryTransport(t *testing.T) {
	vm.Test(t, vm.Machine{Timeout: 5 * time.Minute}, func(t *testing.T) {
		s := tried
		s.Protos, s.Slow = packets.All, true
		packets.Run(t, s)
	})
}
