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

// One machine for all: what it waits for in one test it uses for another.
func TestOnAKernelWithIPVS(t *testing.T) {
	t.Parallel()
	vm.Test(t, vm.Machine{Timeout: 10 * time.Minute, AtOnce: 3, Modules: []string{"dummy"}}, func(t *testing.T) {
		s := packets.Subject{New: func(ns *netns.NS) proxy.Backend { return In(ns, nil) }, Protos: packets.All, Slow: true}
		for name, test := range map[string]func(*testing.T){
			"the suite": suiteOnTheKernel, "packets": func(t *testing.T) { packets.Run(t, s) }, "a bad path": func(t *testing.T) { packets.BadPath(t, s) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t)
			})
		}
	})
}

func suiteOnTheKernel(t *testing.T) {
	real := mode
	real.Host = kernelHost
	s := real.Subject(proxytest.Default())
	s.Rendered = nil // needs no kernel: the suite on the fake has it
	s.Steps, s.Every = 60, 31
	hoptest.Run(t, s)
}

// kernelHost is a host whose kernel is real.
func kernelHost(t *testing.T, c proxy.Config) hoptest.Host {
	t.Helper()
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	loopbackUp(t, ns)
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
	return hostOf(c, nft, ipvs)
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
