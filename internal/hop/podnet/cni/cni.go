// Package cni is podway's CNI plugin (specification 1.1): it gives a Pod its address and its link to the node, a veth pair
// that the node routes to, without a bridge. It owns the pair and the Pod's reservation in the store, and what it needs
// to know of the node it reads from the file that the node agent writes; it never talks to the API server.
//
// Each step may be the last one: the runtime may kill the plugin at any point. What a killed ADD left, the next ADD of
// the same interface takes away, and DEL and GC do. The host's device carries an alias as soon as the link is complete.
package cni

import (
	"path/filepath"

	"github.com/podway/podway/internal/hop/podnet"
)

// Loopback is the name of the plugin that containerd before version 2 demands beside every other: it brings a Pod's
// loopback device up, which podway's own plugin does too.
const Loopback = "loopback"

// NameOf returns the plugin that the program was started as by the name of its file, and whether it was started as one.
func NameOf(program string) (string, bool) {
	name := filepath.Base(program)
	return name, name == podnet.PluginName || name == Loopback
}
