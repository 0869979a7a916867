package nft

import (
	"github.com/podway/podway/internal/kernel/netns"
	knft "github.com/podway/podway/internal/kernel/nft"
)

// In returns the backend for the kernel's tables in a network namespace; nil is the caller's own.
func In(ns *netns.NS) *Backend {
	return New(func() (knft.Kernel, error) { return knft.Open(ns) })
}
