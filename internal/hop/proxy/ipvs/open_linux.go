package ipvs

import (
	"log/slog"

	kipvs "github.com/podway/podway/internal/kernel/ipvs"
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// In returns the backend for a network namespace; nil is the caller's own.
func In(ns *netns.NS, log *slog.Logger) *Backend {
	return New(Doors{
		NFT:    func() (knft.Kernel, error) { return knft.Open(ns) },
		IPVS:   func() (kipvs.Kernel, error) { return kipvs.Open(ns, Device) },
		Sysctl: sysctl.Open(ns),
	}, log)
}
