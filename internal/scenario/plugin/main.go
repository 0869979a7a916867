// Command plugin is podway's CNI plugin and nothing else: a small program, for machines that are slow to start a large one.
package main

import (
	"os"

	"github.com/podway/podway/internal/hop/podnet"
	"github.com/podway/podway/internal/hop/podnet/cni"
)

func main() { os.Exit(cni.Main(podnet.PluginName)) }
