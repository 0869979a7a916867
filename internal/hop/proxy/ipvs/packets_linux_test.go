package ipvs

import (
	"testing"
	"time"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/hop/proxy"
	"github.com/podway/podway/internal/hop/proxy/proxytest"
	"github.com/podway/podway/internal/hop/proxy/proxytest/packets"
	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	"github.com/podway/podway/internal/kernel/link"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/nettest/vm"
)

func TestTheSuiteOnTheKernel(t *testing.T) {
	vm.Test(t, vm.Machine{Timeout: 10 * time.Minute}, func(t *testing.T) {
		s := subject(proxytest.Default(), func(t *testing.T) hoptest.Host { return kernelHost(t, proxytest.Default()) })
		s.Rendered = nil // needs no kernel: the suite on the fake has it
		s.Steps, s.Every = 60, 31
		hoptest.Run(t, s)
	})
}

// kernelHost is a host whose kernel is real.
func kernelHost(t *testing.T, c proxy.Config) *host {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	loopbackUp(t, ns)
	h := &host{config: c}
	nft, err := knft.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { nft.Close() })
	ipvs, err := kipvs.Open(ns, Device)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ipvs.Close() })
	h.nft, h.ipvs = nft, ipvs
	return h
}

func TestPacketsThroughVirtualServers(t *testing.T) {
	vm.Test(t, vm.Machine{Timeout: 5 * time.Minute}, func(t *testing.T) {
		packets.Run(t, packets.Subject{New: func(ns *netns.NS) proxy.Backend { return In(ns, nil) }, Protos: packets.All, Slow: true})
	})
}

// loopbackUp makes a namespace one that has an address: before, IPVS takes no destination.
func loopbackUp(t *testing.T, ns *netns.NS) {
	t.Helper()
	k, err := link.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	if err := k.SetUp("lo", true); err != nil {
		t.Fatal(err)
	}
}
