//go:build !linux

package cni

import (
	"fmt"
	"os"
	"runtime"
)

// Main says that there is no plugin for this operating system.
func Main(string) int {
	fmt.Fprintln(os.Stderr, "podway-cni: there are no Pods on", runtime.GOOS)
	return 1
}
