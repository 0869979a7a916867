package iptables

import (
	kipt "github.com/podway/podway/internal/kernel/iptables"
	"github.com/podway/podway/internal/kernel/netns"
	"github.com/podway/podway/internal/kernel/sysctl"
)

// In returns the backend for the tables of a network namespace, nil is the process's own; the variant of the tools is the
// one that the host's other programs use.
func In(ns *netns.NS) *Backend {
	return New(func() (kipt.Door, error) { return kipt.Open(ns, "") }, sysctl.Open(ns))
}
