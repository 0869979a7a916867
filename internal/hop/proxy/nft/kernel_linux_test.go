package nft

import (
	"testing"

	"github.com/podway/podway/internal/hop/hoptest"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/nettest"
)

// newKernel opens the tables of a network namespace of its own.
func newKernel(t *testing.T) *knft.Conn {
	t.Helper()
	nettest.Need(t, nettest.Root, nettest.NFT)
	ns, err := netns.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Close() })
	k, err := knft.Open(ns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return k
}

func TestTheSuiteOnTheKernel(t *testing.T) {
	s := subject(func(t *testing.T) hoptest.Host { return &host{kernel: newKernel(t)} })
	s.Steps, s.Every = 150, 13
	hoptest.Run(t, s)
}
