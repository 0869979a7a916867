//go:build !linux

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "oracle: network namespaces are Linux's")
	os.Exit(2)
}
